"""Counts the attempts that a stricter limit would have stopped: reads lines of key and microseconds."""

import collections, sys

RATE, WINDOW = 3, 600  # the limit: attempts, seconds
passed = collections.defaultdict(collections.deque)  # by key, when the last RATE attempts that passed were made
attempts, stopped, users = 0, 0, set()
for line in sys.stdin:
    key, at = line.rstrip("\n").rsplit("\t", 1)
    attempts += 1
    if len(passed[key]) == RATE and passed[key][0] > int(at) - WINDOW * 1_000_000:
        stopped += 1
        users.add(key)
        continue
    if len(passed[key]) == RATE:
        passed[key].popleft()
    passed[key].append(int(at))
print(f"{attempts} attempts, {stopped} stopped, of {len(users)} users")
