"""A real Ray cluster on this machine, in a process of its own: nodes come and go as standard input says.

Lines: "add NAME [KEY=VALUE ...]" starts a node with these in its environment and is answered by the cluster's address,
"kill NAME" kills it as a power cut would. It ends with its input. A node with an ADDRESS is a machine of its own.
"""

import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Add and kill nodes as lines of standard input request, until its end."""
    cluster = Cluster()
    nodes = {}
    for line in sys.stdin:
        does, name, *environment = line.split()
        if does == "add":
            variables = dict(pair.split("=", 1) for pair in environment)
            options = {} if nodes else {"include_dashboard": False}
            if address := variables.pop("ADDRESS", None):
                options["node_ip_address"] = address
            nodes[name] = cluster.add_node(num_cpus=1, node_name=name, env_vars=variables, **options)
            answer = cluster.address
        else:
            cluster.remove_node(nodes.pop(name), allow_graceful=False)
            answer = "killed"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    cluster.shutdown()


if __name__ == "__main__":
    main()
