"""`python -m tests.docs` writes the generated parts of docs/chains.md and docs/extend.md."""

from tests.docs import compatibility, extend_page

for generated in (compatibility, extend_page):
    generated.PAGE.write_text(generated.up_to_date(generated.PAGE.read_text("utf-8")), "utf-8")
