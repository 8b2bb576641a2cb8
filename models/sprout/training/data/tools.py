"""Tool use: one call, two calls, no fitting tool, and answers from results."""

import json
import re

from data.catalogue import TOOLS, made_up
from data.draw import Sample

SYSTEMS = ["You are a helpful assistant.", "Be brief.", "You are a helpful assistant. Use the tools when they help.", "Answer shortly.", "You can call tools."]
SLOT = re.compile(r"\{(\w+)\}")


class Tool:
    """A spec with its names chosen: the JSON a client sends, and requests for it."""

    def __init__(self, d, spec: dict):
        self.spec = spec
        self.name = d.choice(spec["names"].split("|"))
        self.about = d.choice(spec["about"].split("|"))
        self.asks = spec["asks"].split("|")
        self.names = {}
        for canonical, p in spec["params"].items():
            free = [n for n in p.names if n not in self.names.values()]
            self.names[canonical] = d.choice(free or [canonical])

    def json(self, d) -> dict:
        always = set.intersection(*(set(SLOT.findall(a)) for a in self.asks))
        props = {}
        for canonical, p in self.spec["params"].items():
            prop = {"type": p.type}
            if p.enum:
                prop["enum"] = p.enum
            if p.about and d.maybe(0.4):
                prop["description"] = d.choice(list(p.about))
                if d.maybe(0.2):
                    prop = dict(reversed(prop.items()))
            props[self.names[canonical]] = prop
        parameters = {"type": "object", "properties": props}
        if d.maybe(0.7):
            parameters["required"] = [self.names[c] for c in self.spec["params"] if c in always]
        if d.maybe(0.06):
            parameters["additionalProperties"] = False
        f = {"name": self.name}
        if d.maybe(0.85):
            f["description"] = self.about + ("." if d.maybe(0.15) else "")
        f["parameters"] = parameters
        if d.maybe(0.03):
            f["strict"] = True
        return {"type": "function", "function": f}

    def request(self, d):
        """A request and the arguments it means, in the order of the schema."""
        ask = d.choice(self.asks)
        used = set(SLOT.findall(ask))
        values = {c: p.make(d) for c, p in self.spec["params"].items() if c in used}
        lower = d.maybe(0.12)
        if lower:
            ask = ask[0].lower() + ask[1:]
            if d.maybe(0.4):
                values = {c: v.lower() if isinstance(v, str) else v for c, v in values.items()}
        text = ask.format(**values)
        if d.maybe(0.1):
            text = text.rstrip("?.")
        args = {self.names[c]: v for c, v in values.items()}
        for v in args.values():  # a sentence's own full stop must not become part of the value
            if isinstance(v, str) and text.endswith(v + ".") and d.maybe(0.5):
                text = text[:-1]
        return text, args


def choose(d, count: int):
    """``count`` tools with different names and purposes."""
    out, seen, specs = [], set(), []
    while len(out) < count:
        spec = d.choice(TOOLS) if d.maybe(0.62) else made_up(d)
        if d.maybe(0.06):
            spec = TOOLS[0]
        t = Tool(d, spec)
        clash = any(_similar(spec, s) for s in specs)
        if t.name not in seen and not clash:
            out.append(t), seen.add(t.name), specs.append(spec)
    return out


_FAMILIES = [("weather", "forecast"), ("add", "calculate", "multiply"), ("search", "find_items", "news", "define"), ("send_email", "send_message"),
             ("set_timer", "set_alarm"), ("read_file", "delete_file"), ("distance", "book_flight"), ("buy", "track_order"), ("weather", "set_temperature"),
             ("create_note", "create_event")]


def _similar(a: dict, b: dict) -> bool:
    """Whether a request for one could as well mean the other."""
    if a is b:
        return True
    return any(any(w in a["names"] for w in f) and any(w in b["names"] for w in f) for f in _FAMILIES)


def call(name: str, args: dict) -> dict:
    return {"type": "function", "function": {"name": name, "arguments": args}}


def why(calls) -> str:
    """The reasoning before a call: the tool and its arguments, in words."""
    parts = []
    for c in calls:
        f = c["function"]
        args = ", ".join(f"{k} = {v}" for k, v in f["arguments"].items())
        parts.append(f"{f['name']} fits: {args}")
    return "\n".join(parts)


def calling(d, calls, thinking: bool) -> dict:
    m = {"role": "assistant", "content": "", "tool_calls": calls}
    return {**m, "reasoning_content": why(calls)} if thinking else m


def system(d, p=0.25) -> list:
    return [{"role": "system", "content": d.choice(SYSTEMS)}] if d.maybe(p) else []


def how_many(d) -> int:
    return d.choice([1, 1, 2, 2, 2, 3])


def tool_single(d) -> Sample:
    tools = choose(d, how_many(d))
    t = d.choice(tools)
    text, args = t.request(d)
    thinking = not d.maybe(0.3)
    return Sample("tool_single", system(d) + [{"role": "user", "content": text}], calling(d, [call(t.name, args)], thinking),
                  tools=[x.json(d) for x in tools], thinking=thinking, grade="calls")


def tool_two(d) -> Sample:
    """Two calls in one answer: one tool twice, or two tools."""
    tools = choose(d, d.choice([1, 2, 2, 3]))
    if len(tools) == 1 or d.maybe(0.45):
        a = b = d.choice(tools)
    else:
        a, b = d.sample(tools, 2)
    (ta, xa), (tb, xb) = a.request(d), b.request(d)
    if a is b and len(xa) == len(xb) == 1 and all(isinstance(v, (str, int, float)) for v in xa.values()) and d.maybe(0.75):
        ask = d.choice([x for x in a.asks if len(SLOT.findall(x)) == 1])
        c = SLOT.findall(ask)[0]
        va, vb = next(iter(xa.values())), next(iter(xb.values()))
        n = a.names[c]
        if n in xa and n in xb:
            text = d.loosely(ask.format(**{c: d.choice(["{x} and {y}", "{x} and {y}", "{x} and in {y}" if "in {" in ask else "{x} and {y}"]).format(x=va, y=vb)}))
            return _two(d, tools, text, a, xa, b, xb)
    low = tb[0].lower() + tb[1:] if not tb[0].isdigit() and not any(isinstance(v, str) and tb.startswith(v) for v in xb.values()) else tb
    text = d.choice(["{a} and {b}", "{a} Also, {b}", "{a} Then {b}", "{a} And {b}", "{A}\n{B}", "{A} {B}"]).format(
        a=ta.rstrip("?.") if d.maybe(0.5) else ta, b=low, A=ta, B=tb)
    return _two(d, tools, text, a, xa, b, xb)


def _two(d, tools, text, a, xa, b, xb) -> Sample:
    thinking = not d.maybe(0.3)
    return Sample("tool_two", system(d) + [{"role": "user", "content": text}], calling(d, [call(a.name, xa), call(b.name, xb)], thinking),
                  tools=[x.json(d) for x in tools], thinking=thinking, grade="calls")


CANNOT = "I cannot do that: none of my tools fits."
NO_TOOL = "I cannot do that: I have no tool for it."


def tool_none(d) -> Sample:
    """A request that none of the listed tools (or no tool at all) can serve."""
    count = d.choice([0, 1, 1, 2, 2])
    while True:
        wanted = choose(d, count + 1)
        t = d.choice(wanted)
        if t.spec in TOOLS and not any(w in t.spec["names"] for w in ("add|", "multiply", "calculate", "translate")):
            break
        if count and t.spec not in TOOLS:
            break
    text, _ = t.request(d)
    tools = [x.json(d) for x in wanted if x is not t]
    thinking = not d.maybe(0.3)
    m = {"role": "assistant", "content": CANNOT if tools else NO_TOOL}
    if thinking:
        m["reasoning_content"] = "No tool fits this." if tools else "This needs a tool, and I have none."
    return Sample("tool_none", system(d) + [{"role": "user", "content": text}], m, tools=tools or None, thinking=thinking)


FIELDS = ["temperature", "condition", "humidity", "wind", "price", "status", "time", "result", "count", "total", "name", "title", "date", "distance",
          "population", "temp", "sky", "rain", "value", "answer", "message", "level", "speed", "change", "author", "rating", "temp_c", "wind_speed", "delivery_date"]


def field_value(d):
    r = d.random()
    if r < 0.4:
        return d.randint(-20, 9999) if d.maybe(0.4) else d.randint(-9, 99)
    if r < 0.5:
        return round(d.randint(0, 999) / 10, 1)
    if r < 0.75:
        return d.choice(["sunny", "cloudy", "rain", "snow", "clear", "windy", "fog", "hot", "open", "closed", "done", "sent", "late", "on time", "shipped"])
    if r < 0.8:
        return clock_text(d)
    return d.word()


def clock_text(d):
    return f"{d.randint(0, 23)}:{d.randint(0, 59):02d}"


def result(d):
    """What a tool returned, and the answer a user is given for it."""
    r = d.random()
    if r < 0.6:
        fields = {}
        for _ in range(d.choice([1, 2, 2, 3])):
            k = d.choice(FIELDS) if d.maybe(0.7) else (d.pick([*_nouns()]) if d.maybe(0.6) else d.pseudo())
            fields[k] = field_value(d)
        parts = [f"the {k.replace('_', ' ')} is {v}" for k, v in fields.items()]
        said = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
        text = json.dumps(fields, ensure_ascii=False)
        if d.maybe(0.15):
            text = text.replace('": ', '":').replace(', "', ',"')
        return text, said
    if r < 0.75:
        v = d.choice([str(d.randint(-20, 99999)), str(round(d.randint(0, 9999) / 10, 1)), d.word(), clock_text(d)])
        return v, f"the result is {v}"
    if r < 0.92:
        v = d.choice(["{a}, {n} degrees", "{a} and {b}", "{a} {n}", "{n} {a}", "{a}: {n}", "{a} {b} {c}", "{n} C, {a}"]).format(
            a=field_value(d) if d.maybe(0.3) else d.word(), b=d.word(), c=d.word(), n=d.randint(-9, 99))
        return v, f"the result is {v}"
    v = d.choice(["not found", "timeout", "no access", "unknown name", "service down", d.word() + " not found", "invalid " + d.word()])
    return json.dumps({"error": v}), f"the tool failed: {v}"


def _nouns():
    from data.words import NOUNS
    return NOUNS


def say(said: str) -> str:
    return said[0].upper() + said[1:] + "."


def tool_result(d) -> Sample:
    """The turn after one or two calls: the answer comes from the results."""
    two = d.maybe(0.3)
    tools = choose(d, d.choice([1, 1, 2]))
    t = d.choice(tools)
    text, args = t.request(d)
    calls = [call(t.name, args)]
    if two:
        text2, args2 = t.request(d)
        text = f"{text} {text2}"
        calls.append(call(t.name, args2))
    asked = calling(d, calls, d.maybe(0.5))
    outs, saids = zip(*(result(d) for _ in calls))
    said = said_for(calls, saids)
    thinking = not d.maybe(0.3)
    m = {"role": "assistant", "content": said}
    if thinking:
        m["reasoning_content"] = HAVE[len(calls) - 1]
    history = system(d) + [{"role": "user", "content": text}, asked] + [{"role": "tool", "content": o} for o in outs]
    return Sample("tool_result", history, m, tools=[x.json(d) for x in tools], thinking=thinking)


def tool_talk(d) -> Sample:
    """Several requests to the same tools, each with its call, result and answer; every assistant turn is trained on."""
    tools = choose(d, d.choice([1, 2, 2, 3]))
    history = system(d)
    turns = d.choice([2, 2, 3])
    for turn in range(turns):
        t = d.choice(tools)
        text, args = t.request(d)
        calls = [call(t.name, args)]
        if d.maybe(0.25):
            u = d.choice(tools)
            text2, args2 = u.request(d)
            text = f"{text}{d.choice([' ', ' ', chr(10), ' And '])}{text2}"
            calls.append(call(u.name, args2))
        last = turn == turns - 1
        thinking = last and not d.maybe(0.3)
        history.append({"role": "user", "content": text})
        asked = calling(d, calls, thinking)
        if last and d.maybe(0.5):
            return Sample("tool_talk", history, asked, tools=[x.json(d) for x in tools], thinking=thinking, grade="calls")
        outs, saids = zip(*(result(d) for _ in calls))
        said = said_for(calls, saids)
        history += [calling(d, calls, False)] + [{"role": "tool", "content": o} for o in outs]
        m = {"role": "assistant", "content": said}
        if last:
            if thinking:
                m["reasoning_content"] = HAVE[len(calls) - 1]
            return Sample("tool_talk", history, m, tools=[x.json(d) for x in tools], thinking=thinking)
        history.append(m)


HAVE = ["I have the result.", "I have both results."]


def said_for(calls, saids) -> str:
    """The answer: one result as a sentence, two each under what was asked for."""
    if len(calls) == 1:
        return say(saids[0])
    return " ".join(f"{next(iter(c['function']['arguments'].values()))}: {s}." for c, s in zip(calls, saids))
