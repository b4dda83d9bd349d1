"""Relations that change with time: the nodes, and the streams and tables below them."""
