"""Fuzzing of every way in which input reaches fflbench: `python -m tests.fuzz --cases 50000`.

A door (`doors/`) is one such way: suite files, options, records, arrays, leaderboards, plugins and so on. Its function
makes one altered input and hands it to the command or to the function behind it. `case.py` checks what must hold for
all of them: no traceback, an exit code of 0, 1, 2 or 130, no control characters on the terminal, nothing written where
nothing may be written. `campaign.py` runs any number of cases in forked processes, with limits on time and memory.
"""
