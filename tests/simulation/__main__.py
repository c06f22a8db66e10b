"""Many simulated weeks, and which laws were broken."""

import argparse
import sys
import time

from tests.simulation.exam import live
from tests.simulation.laws import Broken


def main() -> int:
    parser = argparse.ArgumentParser(description="Live through many simulated weeks, and say which laws were broken.")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    options = parser.parse_args()
    broken = 0
    for seed in range(options.first, options.first + options.seeds):
        began = time.perf_counter()
        try:
            world = live(seed)
            said = f"{len(world.laws.raises)} steps, {world.calls} calls"
        except Broken as error:
            broken, said = broken + 1, str(error)
        sys.stdout.write(f"{seed}: {time.perf_counter() - began:.1f} s: {said}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{options.seeds} lives, {broken} with a broken law\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
