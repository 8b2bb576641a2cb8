"""A random source that knows which side of the train / test split it draws for, and the shape of a sample."""

import random
import zlib
from dataclasses import dataclass, field

HELD_OUT = 12  # one key in this many is for evaluation only


def held_out(key) -> bool:
    """Whether ``key`` belongs to the evaluation side."""
    return zlib.crc32(str(key).encode()) % HELD_OUT == 0


@dataclass
class Sample:
    """One conversation. ``target`` is the last assistant message; ``key`` decides the split (None: either side)."""

    kind: str
    messages: list
    target: dict
    tools: list = None
    thinking: bool = True
    key: object = None
    prompt: str = None  # a raw completion: no messages, target["content"] follows
    grade: str = "exact"  # exact | number | calls
    accept: list = field(default_factory=list)


class Draw(random.Random):
    """``random.Random`` with split-aware picks.

    ``odd``: the share of picked words that give way to a piece of one, or two pieces joined. Every token then gets copied,
    also those that hardly occur but in words of the evaluation side, and odd spellings with doubled letters.
    """

    def __init__(self, seed, test: bool = False, odd: float = 0.0):
        super().__init__(seed)
        self.test, self.odd = test, odd

    def maybe(self, p: float) -> bool:
        return self.random() < p

    def pick(self, items):
        """An item of ``items`` from this side of the split: an evaluation never sees a training item."""
        if self.odd and self.maybe(self.odd):
            return self.piece(items)
        while True:
            item = self.choice(items)
            if held_out(item) == self.test:
                return item

    def pseudo(self, low=2, high=3) -> str:
        """A made-up word of this side of the split."""
        while True:
            w = "".join(
                self.choice(ONSETS) + self.choice(NUCLEI) + (self.choice(CODAS) if self.maybe(0.4) else "")
                for _ in range(self.randint(low, high))
            )
            if held_out(w) == self.test:
                return w

    def piece(self, items) -> str:
        """A part of an item, or parts of two joined, of this side of the split; capitalised where the items are."""
        while True:
            parts = []
            for _ in range(self.choice([1, 1, 1, 2])):
                item = self.choice(items).replace(" ", "")
                size = min(len(item), self.randint(2, 6))
                at = self.randint(0, len(item) - size)
                parts.append(item[at: at + size].lower())
            w = "".join(parts)
            w = w.capitalize() if items[0][0].isupper() else w
            if held_out(w) == self.test:
                return w

    def letters(self, low=2, high=7) -> str:
        """A string of random letters of this side of the split."""
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        if self.odd and self.maybe(self.odd):
            alphabet = self.sample(alphabet, 3)
        while True:
            w = "".join(self.choice(alphabet) for _ in range(self.randint(low, high)))
            if held_out(w) == self.test:
                return w

    def word(self) -> str:
        """Anything that may be asked to be repeated: real, made-up or random, in various cases."""
        from data.words import CITIES, NAMES, NOUNS

        r = self.random()
        if r < 0.45:
            w = self.pick(NOUNS)
        elif r < 0.75:
            w = self.pseudo()
        elif r < 0.85:
            w = self.letters()
        elif r < 0.93:
            w = self.pick(NAMES)
        else:
            w = self.pick(CITIES)
        c = self.random()
        return w.capitalize() if c < 0.12 else w.upper() if c < 0.16 else w

    def loosely(self, text: str) -> str:
        """``text`` as a hurried person types it: case, punctuation and politeness vary."""
        if self.maybe(0.18):
            text = text[0].lower() + text[1:]
        if self.maybe(0.15):
            text = text.rstrip("?.!")
        elif self.maybe(0.03):
            text = text.rstrip("?.!") + self.choice(["?", "!", ".", " ?", "??"])
        if self.maybe(0.04):
            text = self.choice(["Please ", "please ", "Hey, ", "Hi, ", "Ok, ", "So, "]) + text[0].lower() + text[1:]
        if self.maybe(0.03):
            text = text + self.choice([" Thanks.", " thanks", " Thank you!", " Please.", " please", "\n", " "])
        return text


ONSETS = ["b", "br", "bl", "c", "ch", "cl", "cr", "d", "dr", "f", "fl", "fr", "g", "gl", "gr", "h", "j", "k", "kl", "kr", "l", "m",
          "n", "p", "ph", "pl", "pr", "qu", "r", "s", "sc", "sh", "sk", "sl", "sm", "sn", "sp", "st", "str", "sw", "t", "th", "tr",
          "tw", "v", "w", "x", "y", "z", ""]
NUCLEI = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "au", "ea", "ee", "ei", "ia", "ie", "io", "oa", "oo", "ou", "ue", "y"]
CODAS = ["b", "ck", "d", "f", "g", "k", "l", "ll", "m", "n", "nd", "ng", "nt", "p", "r", "rd", "rk", "rt", "s", "ss", "st", "t",
         "th", "x", "z"]
