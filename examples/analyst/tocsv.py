"""Writes the tab-separated rows of the mysql client as CSV that a spreadsheet does not carry out."""

import csv, re, sys

def plain(cell):  # undoes the client's escapes
    return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "0": "\0"}.get(m[1], m[1]), cell)

def safe(cell):
    return "'" + cell if re.match(r"\s*['=+\-@＇＝＋－＠]|[\t\r\n]", cell) else cell

sys.stdin.reconfigure(encoding="utf-8", newline="\n")
sys.stdout.reconfigure(encoding="utf-8", newline="")
out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
for line in sys.stdin:
    out.writerow(safe(plain(cell)) for cell in line.rstrip("\n").split("\t"))
