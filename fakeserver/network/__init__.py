"""Between a socket and the pipeline: connections, TLS, the load balancer, the tap on the wire."""
