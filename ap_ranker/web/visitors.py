"""Who a visitor is, as far as a server needs to know: which network a request comes from, and what it may still do.

No address is kept: a network is known by a keyed hash, and what it used of a day's quota is forgotten with the day.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Final

from sqlalchemy import Connection, delete, select

from ap_ranker.web.database import Database, now, quotas

QUOTAS: Final = {"judgement": 300, "comment": 30, "question": 3000}
"""Kind -> how many of them one network may leave in a day: many people may share an address."""

DAY = 24 * 3600


class Visitors:
    """The networks of visitors of a website, and their quotas."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret = database.secret()

    def network(self, address: str, identity: str = "") -> str:
        """The hash of a visitor's network: of an address, its first 24 bits (IPv6: 48).

        An `identity` that a trusted web server vouches for counts instead: a company's people share one address.
        """
        if identity:
            name = f"identity {identity}"
        else:
            try:
                ip = ipaddress.ip_address(address)
                ip = getattr(ip, "ipv4_mapped", None) or ip
                name = str(ipaddress.ip_network((ip, 24 if ip.version == 4 else 48), strict=False))
            except ValueError:  # of a socket of this machine
                name = address
        return hmac.digest(self._secret, name.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]

    def takes(self, connection: Connection, network: str, kind: str) -> bool:
        """Take one of a network's quota for today, in a transaction; `False` if it has used all of it."""
        today = now() // DAY
        key = {"day": today, "network": network, "kind": kind}
        connection.execute(delete(quotas).where(quotas.c.day < today))
        self._database.upsert(connection, quotas, key | {"used": 1}, list(key), used=quotas.c.used + 1)
        matches = [quotas.c[name] == value for name, value in key.items()]
        used: int = connection.scalar(select(quotas.c.used).where(*matches)) or 0
        return used <= QUOTAS[kind]
