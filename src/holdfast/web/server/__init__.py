"""`holdfast serve`: sockets, processes and limits, whatever the applications respond.

    parent (supervisor)  binds both ports, starts the workers, starts again what dies, stops all in order
      worker 1..n        one event loop each; its own listening socket for each port
        http_server      what the connections of a worker share; the timer that checks them
          connection     HTTP/1.1 with a limit on everything a client can make long, large or slow
            app          an ASGI application: `ControlsApp` on one port, `ReplayApp` on the other

Guaranteed: a request that breaks a limit gets a 4xx, one too many a 503, and neither holds up others. A worker that
dies is replaced, and only its own connections are lost. No worker outlives its parent, however that ends.

Counters are in memory that all processes share, so that any worker can report them all.
"""
