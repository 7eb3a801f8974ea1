"""`holdfast serve`: sockets, processes and limits, whatever the applications respond.

    parent (supervisor)  binds both ports, starts the workers, restarts those that die, stops all in order
      worker 1..n        one event loop each; its own listening socket for each port
        http_server      what the connections of a worker share; the timer that checks them
          connection     HTTP/1.1 with limits on everything a client can make long, large or slow
            app          an ASGI application: `ControlsApp` on one port, `ReplayApp` on the other

Guarantees. A request that breaks a limit gets a 4xx, a request beyond capacity a 503, and neither delays others. A
worker that dies is replaced, and only its own connections are lost. No worker outlives its parent.

Counters are in memory shared by all processes, so any worker can report them all.
"""
