"""`python -m tests.docs` writes the generated pages of docs/, and the generated parts of chains.md and extend.md."""

from tests.docs import compatibility, extend_page, pages

for generated in (compatibility, extend_page):
    generated.PAGE.write_text(generated.up_to_date(generated.PAGE.read_text("utf-8")), "utf-8")
pages.write_pages()
