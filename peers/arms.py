"""Processes under comparison ("arms"). Each is started and warmed up once, lives through all
rounds, and is suspended (SIGSTOP) while another arm runs its time slice.

An arm prints one JSON line after its warm-up, and one for each line on its stdin. Lines that are
not JSON objects are ignored: libraries print them.
"""
import contextlib
import ctypes
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from measure import complain, last_line, take_turns

PR_SET_PDEATHSIG = 1
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class Failed(Exception):
    pass


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def rank_variables(rank, world, port, host="127.0.0.1"):
    """Returns the variables by which a rank finds the others: all on this machine or, with another
    host, one rank on each."""
    here, here_world = (rank, world) if host == "127.0.0.1" else (0, 1)
    values = {"RANK": rank, "WORLD": world, "LOCAL_RANK": here, "LOCAL_WORLD": here_world,
              "HOST": host, "PORT": port, "TOKEN": "of this bench"}
    return {f"BELLOWS_{name}": str(value) for name, value in values.items()}


def together(commands, timeout_s, variables=({}, {})):
    """Runs processes of one thread at the same time, each with its variables. Returns what the
    first one printed; None, after a message on stderr, if one failed."""
    running = [subprocess.Popen(list(map(str, c)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=dict(os.environ, **ONE_THREAD, **more),
                                preexec_fn=die_with_parent)
               for c, more in zip(commands, variables)]
    try:
        said = [process.communicate(timeout=timeout_s) for process in running]
    except subprocess.TimeoutExpired:
        said = []
    finally:
        for process in running:
            process.kill()
            process.wait()
    if said and not any(process.returncode for process in running):
        return said[0][0]
    why = "; ".join(last_line(err) for _, err in said) or "no answer"
    complain(f"failed: {' '.join(map(str, commands[0]))}: {why}")
    return None


class Spinning:
    """Context manager: `count` processes that spin."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        spin = [sys.executable, "-c", "while True: pass"]
        self.all = [subprocess.Popen(spin, preexec_fn=die_with_parent)
                    for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.all:
            process.kill()
            process.wait()


class Arm:
    def __init__(self, argv, timeout_s, **environment):
        """Starts the process and waits for its warm-up. timeout_s limits the warm-up, compilation
        included, and each block."""
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
            self.end()  # or it would keep running beside the timed arms
            raise
        self.process.send_signal(signal.SIGSTOP)

    def block(self):
        """Runs one time slice; returns what the process measured."""
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            pass  # the process has ended; answer() raises the reason
        answer = self.answer()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def end(self):
        self.process.kill()  # also ends a stopped process
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
            raise Failed(f"no answer for {self.timeout_s} s: {self.said()}")
        data = os.read(out.fileno(), 1 << 16)
        if not data:
            raise Failed(f"ended with {self.process.wait()}: {self.said()}")
        return data

    def said(self):
        """The last line on stderr, then the last 40 lines."""
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        return "\n".join([last_line(text), *text.splitlines()[-40:]])


class Arms:
    """Several arms by name; leaving the `with` block ends all. An arm that fails is removed, with
    the reason in `missing`."""

    def __init__(self, commands, timeout_s, after_start=lambda missing: None, **environment):
        """after_start(missing) is called whenever an arm is warm or has failed."""
        self.commands, self.timeout_s, self.environment = commands, timeout_s, environment
        self.after_start = after_start
        self.alive, self.missing = {}, {}

    def __enter__(self):
        for name, argv in self.commands.items():
            complain(f"starting {name}")
            self.attempt(name, lambda: Arm(argv, self.timeout_s, **self.environment))
            self.after_start(self.missing)
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

    def take_turns(self, rounds, state=dict, after_turn=lambda results: None):
        """Returns the results of each arm that did not fail, by name; after_turn gets them after
        each turn. A result has the arm's facts and what state() returns right after the time
        slice."""
        about = {name: arm.about for name, arm in self.alive.items()}

        def turn(name):
            result = self.turn(name)
            return result and (about[name] | result | state())
        return take_turns(about, rounds, turn, after_turn)

    def turn(self, name):
        """Runs one time slice of that arm; returns None if it fails."""
        try:
            return self.alive[name].block()
        except Failed as error:
            self.leave_out(name, error)
            self.alive.pop(name).end()
            return None
