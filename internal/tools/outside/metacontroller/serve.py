"""serve.py PORT PROGRAM: runs a program whose HTTPServer wants another port."""
import http.server
import runpy
import sys

port, program = int(sys.argv[1]), sys.argv[2]
init = http.server.HTTPServer.__init__


def listen(self, _, *handlers):
    init(self, ("127.0.0.1", port), *handlers)


http.server.HTTPServer.__init__ = listen
runpy.run_path(program, run_name="__main__")
