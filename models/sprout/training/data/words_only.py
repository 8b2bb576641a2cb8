"""Format instructions: exact words, lists, JSON, repetition. The words asked for are from the split's own side."""

from data.draw import Sample

ONE = ["Reply with exactly one word: {w}"] * 6 + [
    "Answer with one word: {w}", "Say only the word {w}.", "Reply with just the word {w}.", "Reply only with: {w}", "Say {w} and nothing else.",
    "Repeat this word: {w}", "Say {w}.", "Write the word {w}.", "Respond with a single word: {w}.", "Echo: {w}", "Output only {w}",
    "Just say {w}.", "Please reply with the single word {w}.", "Your whole answer must be: {w}", "Reply with one word only: {w}.",
    'Reply with "{w}".', "Respond with exactly {w}", "Say the word '{w}'.", "Type {w}", "Return {w} only.", "Answer {w}."]


def one_word(d) -> Sample:
    w = d.word()
    return _made(d, "one_word", d.choice(ONE).format(w=w), w, w)


def formats(d) -> Sample:
    """Several words in an asked-for form."""
    n = d.randint(2, 4)
    ws = [d.word() for _ in range(n)]
    listed = ", ".join(ws[:-1]) + " and " + ws[-1]
    spaced = " ".join(ws)
    r = d.randint(0, 9)
    if r == 0:
        text, out = d.choice(["Repeat after me: {s}", "Say exactly: {s}", "Repeat: {s}", "Say this: {s}"]).format(s=spaced), spaced
    elif r == 1:
        text, out = d.choice(["List {l} as bullet points.", "Make a bullet list of {l}.", "Write {l} as a list."]).format(l=listed), "\n".join(f"- {w}" for w in ws)
    elif r == 2:
        text, out = d.choice(["Make a numbered list of {l}.", "Number these: {l}."]).format(l=listed), "\n".join(f"{i + 1}. {w}" for i, w in enumerate(ws))
    elif r == 3:
        text = d.choice(['Reply in JSON with the key "{k}" and the value "{v}".', "Give me JSON with key {k} and value {v}.",
                         "Write a JSON object: {k} is {v}."]).format(k=ws[0], v=ws[1])
        out = f'{{"{ws[0]}": "{ws[1]}"}}'
    elif r == 4:
        k = d.randint(2, 5)
        text, out = d.choice([f"Say {ws[0]} {k} times.", f"Repeat {ws[0]} {k} times.", f"Write {ws[0]} {k} times."]), " ".join([ws[0]] * k)
    elif r == 5:
        text, out = d.choice([f"Write {listed} separated by commas.", f"Give {listed} as a comma separated list."]), ", ".join(ws)
    elif r == 6:
        text, out = d.choice([f"Put {ws[0]} in quotes.", f"Write {ws[0]} in double quotes."]), f'"{ws[0]}"'
    elif r == 7:
        text, out = d.choice([f"What is the last word of: {spaced}", f"Give the last word: {spaced}", f"Last word of: {spaced}"]), ws[-1]
    elif r == 8:
        text, out = d.choice([f"What is the first word of: {spaced}", f"Give the first word: {spaced}", f"First word of: {spaced}"]), ws[0]
    else:
        text, out = d.choice([f"Say {ws[0]}, then say {ws[1]}.", f"First say {ws[0]} and then {ws[1]}."]), f"{ws[0]} {ws[1]}"
    return _made(d, "format", text, out, out.replace("\n", " "))


def _made(d, kind, text, out, why) -> Sample:
    thinking = not d.maybe(0.35)
    m = {"role": "assistant", "content": out}
    if thinking:
        m["reasoning_content"] = f"I must say: {why}"
    c = d.random()
    if c < 0.1:
        text = text[0].lower() + text[1:]
    elif c < 0.15:
        text = text.rstrip(".")
    elif c < 0.2:
        text = d.choice(["Please: ", "Hi. ", "OK. "]) + text
    return Sample(kind, [{"role": "user", "content": text}], m, thinking=thinking)
