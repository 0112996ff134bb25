"""The website: page, API, owner's desk; nothing below imports it."""
