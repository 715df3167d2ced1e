"""`python -m tests.docs` writes the generated parts of docs/chains.md, docs/extend.md and docs/reproduction.md."""

from tests.docs import claims, compatibility, extend_page

for generated in (claims, compatibility, extend_page):
    if generated.PAGE.exists():
        generated.PAGE.write_text(generated.up_to_date(generated.PAGE.read_text("utf-8")), "utf-8")
