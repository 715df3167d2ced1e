"""`python -m tests.docs` writes the generated tables of docs/chains.md."""

from tests.docs.compatibility import PAGE, up_to_date

PAGE.write_text(up_to_date(PAGE.read_text("utf-8")), "utf-8")
