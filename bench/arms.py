"""Contestants that live through all rounds: each is one process, started and warmed up once, which
works when it is told to and is stopped while another has the turn.

An arm answers with one JSON line when it is warm, and with one for each line on its stdin. Lines
that are no JSON objects are a library's chatter.
"""
import contextlib
import ctypes
import json
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time

from measure import complain, last_line

PR_SET_PDEATHSIG = 1


class Failed(Exception):
    pass


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Arm:
    def __init__(self, argv, timeout_s, **environment):
        """Starts it. It has timeout_s to get warm, compiling included, and for each block."""
        self.argv, self.timeout_s, self.unread = list(map(str, argv)), timeout_s, b""
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                self.argv, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.errors, env=dict(os.environ, **environment),
                preexec_fn=die_with_parent)
        except OSError as error:
            raise Failed(str(error)) from error
        try:
            self.about = self.answer()
        except Failed:
            self.end()  # or it would go on beside those that are timed
            raise
        self.process.send_signal(signal.SIGSTOP)

    def block(self):
        """What it has measured in a turn."""
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            pass  # it has ended; the answer says how
        answer = self.answer()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def end(self):
        self.process.kill()  # reaches a stopped one too
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def answer(self):
        deadline = time.monotonic() + self.timeout_s
        while True:
            line, newline, rest = self.unread.partition(b"\n")
            if not newline:
                self.unread += self.read(deadline)
                continue
            self.unread = rest
            with contextlib.suppress(ValueError):
                if isinstance(answer := json.loads(line), dict):
                    return answer

    def read(self, deadline):
        out = self.process.stdout
        if not select.select([out], [], [], max(0, deadline - time.monotonic()))[0]:
            raise Failed(f"no answer for {self.timeout_s} s")
        data = os.read(out.fileno(), 1 << 16)
        if not data:
            raise Failed(f"ended with {self.process.wait()}: {self.last_error()}")
        return data

    def last_error(self):
        self.errors.seek(0)
        return last_line(self.errors.read().decode(errors="replace"))


class Arms:
    """Several of them, by name; all end with the block. One that fails is left out from there on,
    and `missing` says why."""

    def __init__(self, commands, timeout_s, **environment):
        self.commands, self.timeout_s, self.environment = commands, timeout_s, environment
        self.alive, self.missing = {}, {}

    def __enter__(self):
        for name, argv in self.commands.items():
            complain(f"starting {name}")
            self.attempt(name, lambda: Arm(argv, self.timeout_s, **self.environment))
        return self

    def __exit__(self, *_):
        for arm in self.alive.values():
            arm.end()

    def attempt(self, name, start):
        try:
            self.alive[name] = start()
        except Failed as error:
            self.leave_out(name, error)

    def leave_out(self, name, error):
        self.missing[name] = str(error)
        complain(f"left out: {name}: {error}: {shlex.join(map(str, self.commands[name]))}")

    def turn(self, name):
        """A block of that arm; None if it fails."""
        try:
            return self.alive[name].block()
        except Failed as error:
            self.leave_out(name, error)
            self.alive.pop(name).end()
            return None
