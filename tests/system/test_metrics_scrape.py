"""What a scrape of a gateway with 64 workers may take: tests/bench/tool_metrics_scrape.c measures it."""

import re
import subprocess
import sys
import unittest

from programs import build_folder, need_file, run_tests

SCRAPE_MS_MAX = 5


class Scrape(unittest.TestCase):
    def test_99_of_100_are_answered_soon(self):
        tool = need_file(build_folder() / "tests" / "metrics_scrape", "tests/metrics_scrape is not built")
        told = subprocess.run([tool, "1000"], check=True, capture_output=True, text=True).stdout
        print(told)
        self.assertRegex(told, "^64 workers, ")
        self.assertLess(float(re.search(r"99 % ([0-9.]+) ms", told)[1]), SCRAPE_MS_MAX)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
