"""Plain federated learning: everybody sends its update to the server as it is (McMahan et al., AISTATS 2017)."""

from fflbench.plugin import Transcript, Transport, Upload, transport


@transport("plain", title="Plain")
class Plain(Transport):
    """Send every update to the server under its sender's name."""

    overwrites_rows = False

    def transmit(self, upload: Upload) -> Transcript:
        return self.submitted(upload)
