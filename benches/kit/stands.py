"""stands - when processors stood still, by benches/kit's pulse; and how long something took without that."""
import os, subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PULSE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "target/bench/pulse")


class Pulse:
    """Watches a processor until it is asked; on the last one, which is the load tester's and has time for it."""

    def __init__(self, cpu):
        command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), PULSE, str(cpu)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def stands(self):
        """From when until when, in seconds since 1970; None where that could not be found out."""
        lines = [map(float, line.split()) for line in self.process.communicate()[0].splitlines()]
        return None if self.process.returncode else [(end - us / 1e6, end) for end, us in lines]


def stood(begin, end, stands):
    """For how many of these seconds; where several processors are watched, for how many one of them or another did."""
    total, at = 0, begin
    for since, until in sorted(stands):
        since, until = max(at, since), min(end, until)
        if since < until:
            total, at = total + until - since, until
    return total
