"""What `make bench` runs: ratios against a yardstick of the same run, never absolute promises."""
