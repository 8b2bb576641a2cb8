"""Products, sums and differences with their working written out digit by digit."""

from data.draw import Sample


def column_sum(a: int, b: int) -> str:
    """``a + b`` from the last column to the first, carries written as ``+ 1``."""
    width = max(len(str(a)), len(str(b)))
    x, y = str(a).zfill(width), str(b).zfill(width)
    steps, carry = [], 0
    for i in reversed(range(width)):
        s = int(x[i]) + int(y[i]) + carry
        steps.append(f"{x[i]} + {y[i]}{' + 1' if carry else ''} = {s}")
        carry = s // 10
    return f"{x} + {y}: {', '.join(steps)}: {a + b}"


def column_difference(a: int, b: int) -> str:
    """``a - b`` for a >= b; a borrowed column shows ``+ 10``, the next one ``- 1``."""
    width = len(str(a))
    x, y = str(a), str(b).zfill(width)
    steps, borrow = [], 0
    for i in reversed(range(width)):
        d = int(x[i]) - int(y[i]) - borrow
        steps.append(f"{x[i]} - {y[i]}{' - 1' if borrow else ''}{' + 10' if d < 0 else ''} = {d % 10}")
        borrow = int(d < 0)
    return f"{x} - {y}: {', '.join(steps)}: {a - b}"


def digit_product(a: int, d: int) -> str:
    """``a * d`` for one digit d, carries added as they come."""
    steps, carry = [], 0
    for x in reversed(str(a)):
        p = int(x) * d + carry
        steps.append(f"{x} * {d}{f' + {carry}' if carry else ''} = {p}")
        carry = p // 10
    return f"{a} * {d}: {', '.join(steps)}: {a * d}"


def product_work(a: int, b: int) -> str:
    """``a * b`` up to two digits each, by partial products."""
    lines = []
    if a < 10 <= b:
        lines.append(f"{a} * {b} = {b} * {a}")
        a, b = b, a
    if b < 10:
        return "\n".join(lines + [digit_product(a, b)])
    ones, tens = b % 10, b // 10
    lines.append(f"{a} * {b} = {a} * {ones} + {a} * {tens}0")
    lines += [digit_product(a, ones), digit_product(a, tens), column_sum(a * tens * 10, a * ones)]
    return "\n".join(lines)


def sum_work(a: int, b: int) -> str:
    return column_sum(a, b)


def difference_work(a: int, b: int) -> str:
    if a < b:
        return f"{a} < {b}, so -({b} - {a})\n{column_difference(b, a)}"
    return column_difference(a, b)


OPS = {
    "*": (product_work, lambda a, b: a * b,
          ["{a} * {b}"] * 8 + ["{a} x {b}", "{a}*{b}", "{a} × {b}", "{a} times {b}", "{a}x{b}", "{a} multiplied by {b}"],
          ["Multiply {a} by {b}.", "What is the product of {a} and {b}?", "Multiply {a} and {b}.", "product of {a} and {b}"]),
    "+": (sum_work, lambda a, b: a + b,
          ["{a} + {b}"] * 5 + ["{a}+{b}", "{a} plus {b}"],
          ["Add {a} and {b}.", "What is the sum of {a} and {b}?", "Add {b} to {a}.", "sum of {a} and {b}"]),
    "-": (difference_work, lambda a, b: a - b,
          ["{a} - {b}"] * 5 + ["{a}-{b}", "{a} minus {b}"],
          ["Subtract {b} from {a}.", "Take {b} away from {a}.", "What is the difference of {a} and {b}?", "{a} take away {b}"]),
}
ASK = ["What is {e}?"] * 5 + ["Calculate {e}.", "Compute {e}.", "{e}", "{e} = ?", "{e}?", "{e} =", "How much is {e}?", "What's {e}?",
                              "Work out {e}.", "Can you tell me {e}?", "Solve {e}.", "whats {e}", "Tell me what {e} is."]
JUST = ["Answer with just the number."] * 4 + ["Just the number.", "Only the number, please.", "Reply with only the number.",
                                              "Give only the result.", "Answer with the number only.", "Number only."]


def operands(d, op: str):
    """A pair of operands, small ones included."""
    if op == "*":
        if d.maybe(0.8):
            return d.randint(10, 99), d.randint(10, 99)
        return d.randint(0, 99), d.randint(0, 12)
    a, b = (d.randint(0, 10 ** d.choice([1, 2, 2, 3, 3, 4, 4, 4]) - 1) for _ in "ab")
    if op == "-" and a < b and d.maybe(0.8):
        a, b = b, a
    return a, b


def question(d, op: str, a: int, b: int):
    """A question about ``a op b``; whether only the number is wanted; and the expression as the answer names it."""
    _, _, inline, whole = OPS[op]
    if d.maybe(0.8):
        text = d.choice(ASK).format(e=d.choice(inline).format(a=a, b=b))
    else:
        text = d.choice(whole).format(a=a, b=b)
    text = d.loosely(text)
    just = d.maybe(0.4)
    if just:
        ask = d.choice(JUST)
        text = text.rstrip() + d.choice([" ", " ", " ", "\n", "\n\n"]) + (ask.lower() if d.maybe(0.1) else ask)
    return text, just


def answer(op: str, a: int, b: int, just: bool, thinking: bool) -> dict:
    """The assistant's message. Without thinking the working is the answer, unless only the number is wanted."""
    work, value, _, _ = OPS[op]
    result = value(a, b)
    if just:
        content = str(result)
    elif thinking:
        content = f"{a} {op} {b} = {result}"
    else:
        content = f"{work(a, b)}\n\n{a} {op} {b} = {result}"
    return {"role": "assistant", "content": content, **({"reasoning_content": work(a, b)} if thinking else {})}


def arithmetic(op: str, kind: str):
    def make(d):
        a, b = operands(d, op)
        text, just = question(d, op, a, b)
        thinking = not d.maybe(0.15)
        if not thinking and just and not d.test and d.maybe(0.7):  # a guess without working: a little practice only
            thinking = True
        return Sample(kind, [{"role": "user", "content": text}], answer(op, a, b, just, thinking), thinking=thinking,
                      key=f"{min(a, b)}{op}{max(a, b)}", grade="number")
    return make


product, addition, difference = arithmetic("*", "product"), arithmetic("+", "sum"), arithmetic("-", "difference")


def compare(d) -> Sample:
    """Which of two numbers is larger; yes or no."""
    a, b = d.randint(0, 999), d.randint(0, 999)
    a += a == b
    why = f"{max(a, b)} > {min(a, b)}"
    r = d.random()
    if r < 0.4:
        text, out = d.choice([f"Which is larger, {a} or {b}?", f"Which number is bigger: {a} or {b}?"]), str(max(a, b))
    elif r < 0.6:
        text, out = d.choice([f"Which is smaller, {a} or {b}?", f"Which number is smaller: {a} or {b}?"]), str(min(a, b))
    elif r < 0.8:
        text, out = d.choice([f"Is {a} greater than {b}? Answer yes or no.", f"Is {a} larger than {b}? Yes or no?"]), "Yes" if a > b else "No"
    else:
        text, out = d.choice([f"Is {a} less than {b}? Answer yes or no.", f"Is {a} smaller than {b}? Yes or no?"]), "Yes" if a < b else "No"
    thinking = not d.maybe(0.25)
    return Sample("compare", [{"role": "user", "content": d.loosely(text)}],
                  {"role": "assistant", "content": out, **({"reasoning_content": why} if thinking else {})},
                  thinking=thinking, key=f"{a}?{b}")
