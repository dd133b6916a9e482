"""A source that counts its readers and may die in the middle; run as a program, it is prepared when told to start."""

import os
import signal
import sys

from sublayer.data import DataConfig, prepare
from sublayer.data.source import Piece, Source

BLOCK = b"line of a text that is long enough\n" * 1000
BLOCKS = 40


class Slow(Source):
    class Config(Source.Config, tag="slow_for_test"):
        path: str
        die: bool = False

    def fingerprint(self):
        return "slow"

    def read(self):
        with open(self.config.path, "ab", buffering=0) as file:
            file.write(b"x")
        for n in range(BLOCKS):
            yield Piece("slow", BLOCK, begins=n == 0)
            if self.config.die and n == BLOCKS // 2:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    config, cache = DataConfig.from_json(sys.argv[1]), sys.argv[2]
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    print(prepare(config, cache).hash)  # noqa: T201
