"""Files as other systems export them, and what a search finds in each."""

from __future__ import annotations

from conftest import ROOT

EXPORTS = ROOT / "tests" / "data" / "exports"

IMPORTS = {
    "zendesk.json": (
        "How do I return a kayak?",
        "paddle",
        "Help > Returns · … https://x.zendesk.com/hc/en-us/articles/1",
    ),
    "intercom.json": ("Changing your password", "Security", "Account · … https://help.example/en/articles/6871119"),
    "freshdesk.json": ("Can I pay by invoice?", "Lapland", "General > Payment · freshdesk.json"),
    "help_scout.json": ("Cancelling an order", "hotline", "Orders · … https://docs.example/article/a1"),
    "confluence": ("What does a hotel room cost?", "ninety crowns", "Travel > Expenses > Hotels · Expenses_98311.html"),
    "nested.json": ("Wohin mit dem Paket?", "Keller", ""),
    "forms.csv": ("Do you repair tents?", "Bring it to the shop.", ""),
    "sheets.csv": ("Was kostet ein Zelt?", "mit Heringen.", ""),
    "FAQ.xls": ("Wo ist das Päckchen?", "den Link.", ""),
    "FAQ.ods": ("Wo ist das Päckchen?", "den Link.", ""),
    "FAQ_office.xls": ("Wo ist das Päckchen xls office?", "den Link xls office.", ""),
    "FAQ_office.ods": ("Wo ist das Päckchen ods office?", "den Link ods office.", ""),
    "FAQ_office.xlsx": ("Wo ist das Päckchen xlsx office?", "den Link xlsx office.", ""),
    "office_cp1252.csv": ("Wo ist das Päckchen csv cp1252?", "den Link csv cp1252.", ""),
    "office_utf16.csv": ("Wo ist das Päckchen csv utf16?", "den Link csv utf16.", ""),
    "office.docx": ("Was kostet ein docx Hotel?", "neunzig docx", "Handbuch für alle > Reisen · office.docx"),
    "office.html": ("Was kostet ein html Hotel?", "html Taler", "Reisen · office.html"),
    "office.pdf": ("Was kostet ein pdf Hotel?", "neunzig pdf", "office · office.pdf, page 1"),
}
"""File -> what is asked, what is in the answer, and what its source tells."""
