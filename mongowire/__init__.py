"""The shared floor: a sans-I/O codec of the MongoDB wire protocol, error codes, and the ports to the world.

Nothing here knows a server or a driver. `mongowire.connection` turns bytes into messages and back,
`mongowire.codes` names errors, `mongowire.ports` has the ports to clock, random numbers and network, and
`mongowire.system` gives them from the operating system.
"""
