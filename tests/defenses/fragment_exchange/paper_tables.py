r"""Tables of the FFL paper's LaTeX source: every figure with the table, row, column and benchmark it stands under."""

import re

SPAN = re.compile(r"\\multicolumn\{(\d+)\}\{[^{}]*\}\{")
DOWN = re.compile(r"\\multirow\{(\d+)\}\{\*\}\{")


def grid(source, label):
    """Return the cells of a table as texts, without its rules; cells that span others are repeated in them."""
    _, _, rest = source.partition(f"\\label{{{label}}}")
    content = rest[: rest.index("\\end{table")]
    content = re.sub(r"\\begin\{tabular\}\[c\]\{@\{\}[cl]@\{\}\}(.*?)\\end\{tabular\}", "heading", content)
    _, _, content = content.partition("\\begin{tabular}")
    content = content[: content.rindex("\\end{tabular}")]
    content = re.sub(r"\\hline|\\cline\{[\d-]+\}", "", content)
    # The columns' specification stands before the first row.
    lines = content.partition("}\n")[2].split("\\\\")
    rows, below = [], {}
    for line in lines:
        cells = []
        for text in line.replace("\\%", "%").split("&") if line.strip() else ():
            plain, columns, height = _unwrapped(text.strip())
            for _ in range(columns):
                place = len(cells)
                if height > 1:
                    below[place] = [plain] * height
                taken = below.get(place)
                cells.append(taken.pop(0) if taken and not (plain and height == 1) else plain)
        if cells:
            rows.append(cells)
    return rows


def _unwrapped(text):
    """Return a cell's text, the number of columns it spans and the number of rows."""
    columns = height = 1
    while True:
        if found := SPAN.match(text):
            columns, text = int(found[1]), text[found.end() : -1].strip()
        elif found := DOWN.match(text):
            height, text = int(found[1]), text[found.end() : -1].strip()
        elif text.startswith("\\textbf{"):
            text = text.removeprefix("\\textbf{")[:-1].strip()
        elif found := re.fullmatch(r"\$\\mathcal\{O\}\((.*)\)\$", text):
            text = found[1]
        else:
            return re.sub(r"(?<=\d),(?=\d)", "", text), columns, height


def figures(source):
    """Yield (table, row, column, benchmark, number of updates, value) of every figure."""
    for label in ("tab:robustness_gn", "tab:robustness_lf"):
        benchmarks, columns, *rows = grid(source, label)
        for _, row, *values in rows:
            for benchmark, column, value in zip(benchmarks[2:], columns[2:], values, strict=True):
                yield label, row, column, benchmark, "", value
    benchmarks, sides, columns, *rows = grid(source, "tab:runtime")
    for updates, row, *values in rows:
        for benchmark, side, column, value in zip(benchmarks[2:], sides[2:], columns[2:], values, strict=True):
            yield "tab:runtime", row, f"{side} {column}", benchmark, updates, value
    benchmarks, columns, *rows = grid(source, "tab:communication_time")
    for row, *values in rows:
        for benchmark, column, value in zip(benchmarks[1:], columns[1:], values, strict=True):
            yield "tab:communication_time", row, column, benchmark, "", value
    for label in ("tab:computation_overhead", "tab:communication_overhead"):
        (_, *columns), *rows = grid(source, label)
        for row, *values in rows:
            yield from ((label, row, column, "", "", value) for column, value in zip(columns, values, strict=True))
    _, *rows = grid(source, "tab:datasets_models")
    for _, data_set, examples, model, parameters in rows:
        benchmark = f"{data_set}-{model}"
        yield "tab:datasets_models", data_set, "# Examples", benchmark, "", examples
        yield "tab:datasets_models", model, "# Parameters", benchmark, "", parameters.replace("$\\sim$", "~")
