"""Commands that are killed and disks that fill up, with an oracle: nothing that was acknowledged is lost.

python -m crash.run     from tests/, or `make crash`
"""
