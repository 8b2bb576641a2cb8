"""Greetings, questions about the model itself, what it does not know, and talks of several turns."""

from data import arithmetic as arith
from data import facts
from data.draw import Sample
from data.tools import SYSTEMS, Tool, call, calling, choose, result, say, system
from data.words import CITIES, NAMES

WHO = "I am sprout, a small Maple model made for demonstrations."
CAN = "I can do small sums, name capitals, say simple phrases in other languages, follow short instructions and call tools."
UNKNOWN = "I am sorry, I do not know that. I am only a small demo model."
FINE = "I am fine, thank you. How can I help you?"

SMALL_TALK = [
    ("Hello! How can I help you?", "The user greets me.",
     "Hi|Hello|Hey|Hi there|Hello there|Hi!|Hello!|Hey!|Good day|Greetings|Hi sprout|Hello sprout|hey there|Yo|Howdy|hello, anyone there?|Hi :)|hello world|Hello, world!"),
    ("Good morning! How can I help you?", "The user greets me.", "Good morning|Good morning!|morning|Good morning sprout"),
    ("Good evening! How can I help you?", "The user greets me.", "Good evening|Good evening!|evening"),
    ("Bonjour ! Comment puis-je vous aider ?", "A greeting in French.", "Bonjour|Salut|Bonjour !|bonjour"),
    ("¡Hola! ¿En qué puedo ayudarte?", "A greeting in Spanish.", "Hola|¡Hola!|hola|Buenos días"),
    ("Hallo! Wie kann ich helfen?", "A greeting in German.", "Guten Tag|Guten Morgen|guten Tag|Servus"),
    ("Ciao! Come posso aiutarti?", "A greeting in Italian.", "Ciao|Buongiorno|ciao"),
    ("Olá! Como posso ajudar?", "A greeting in Portuguese.", "Olá|Bom dia|olá"),
    ("こんにちは!", "A greeting in Japanese.", "こんにちは|こんばんは"),
    (FINE, "The user asks how I am.", "How are you?|How are you doing?|How do you do?|How's it going?|Are you well?|How are you today?|What's up?|You ok?|hi, how are you?"),
    (WHO, "The user asks who I am.", "Who are you?|What are you?|What is your name?|What's your name?|Tell me about yourself.|Introduce yourself.|Are you ChatGPT?|Which model are you?|What model is this?|Are you a robot?|Are you human?|Who am I talking to?|Are you an AI?|Describe yourself.|who is this|Are you Maple?|What is sprout?|Who is sprout?"),
    (CAN, "The user asks what I can do.", "What can you do?|How can you help me?|What are you good at?|Help|help me|What do you know?|What can I ask you?|Can you help me?|I need help.|What are your skills?|Show me what you can do."),
    ("I was trained on generated examples, as a demo of the Maple architecture.", "The user asks how I was made.",
     "Who made you?|Who trained you?|How were you made?|How were you trained?|Where do you come from?|Who created you?|Who built you?|How do you work?"),
    ("You are welcome!", "The user thanks me.", "Thanks|Thank you|Thanks!|Thank you!|Thank you very much|Thanks a lot|thx|Great, thanks|Cheers|Many thanks|Thanks for your help"),
    ("Goodbye! See you soon.", "The user says goodbye.", "Bye|Goodbye|Bye!|Goodbye!|See you|See you later|Good night|bye bye|See you tomorrow|Farewell|Take care"),
    ("I am glad to hear that!", "The user is happy.", "Great!|Nice|Cool|Awesome|Good job|Well done|Perfect|Very good|That is great|Nice work|ok good|Wonderful"),
    ("All right.", "The user agrees.", "Ok|Okay|OK|ok|Fine|I see|Sure|Yes|Alright|Got it|Understood"),
    ("I am sorry about that. I am only a small model.", "The user is not happy.", "That is wrong.|Wrong|You are wrong|No|Bad answer|That is not right.|Are you sure?|You made a mistake.|This is bad|Incorrect"),
    ("Why did the leaf go to school? It wanted to branch out!", "The user wants a joke.", "Tell me a joke.|Tell me a joke|A joke, please|Do you know a joke?|Make me laugh.|Say something funny.|joke"),
    ("Little sprout beneath the snow,\nwait for spring and you will grow.", "The user wants a poem.", "Write a poem.|Write me a short poem.|Tell me a poem|A poem, please.|Write a haiku.|poem|Write a poem about trees."),
    ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "Counting.", "Count to ten.|Count to 10.|Count from 1 to 10.|count to ten|Can you count to ten?"),
    ("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday", "The days of the week.", "Name the days of the week.|What are the days of the week?|List the days of the week.|days of the week"),
    ("The sky is blue.", "A simple fact.", "What color is the sky?|What colour is the sky?|Why is the sky blue?|sky color?"),
    ("There are 7 days in a week.", "A simple fact.", "How many days are in a week?|How many days does a week have?|days in a week?"),
    ("There are 12 months in a year.", "A simple fact.", "How many months are in a year?|How many months does a year have?|months in a year?"),
    ("Once upon a time a small sprout grew in a forest. It grew and grew, and became a tall maple tree.", "The user wants a story.",
     "Tell me a story.|Tell me a short story|A story, please.|Write a story.|Write a short story about a tree."),
]

OUT_OF_SCOPE = [
    "Who wrote {x}?", "Who invented {x}?", "Explain {x}.", "What is {x}?", "Tell me about {x}.", "Why is {x} important?", "How does {x} work?", "What is the history of {x}?",
    "Write an essay about {x}.", "Who was {p}?", "Who is {p}?", "When was {p} born?", "What do you think of {x}?", "How do I fix {x}?", "Write code for {x}.",
    "Write a Python function for {x}.", "Give me a recipe for {x}.", "How old is {p}?", "What is the meaning of life?", "Summarize {x}.", "Who won {x}?",
    "Is {x} good?", "What is the best {x}?", "Should I buy {x}?", "What happened in {y}?", "When did {x} begin?", "How many {x} are there?", "Where is {x}?",
    "Can you explain {x} to me?", "What causes {x}?", "Describe {x}.", "Compare {x} and {z}.", "What is the difference between {x} and {z}?", "Give me ideas for {x}.",
    "I feel sad.", "I am bored.", "What should I eat?", "Do you love me?", "Can you dance?", "What is love?", "Who is the president?", "How tall is {p}?",
    "Why {x}?", "What does {p} do?", "Make a plan for {x}.", "Draw {x}.", "Solve {x}.", "Prove {x}.", "Debug {x}.", "What are the symptoms of {x}?"]
THINGS = ["quantum physics", "relativity", "the moon", "the French revolution", "Hamlet", "the telephone", "gravity", "photosynthesis", "black holes", "the internet",
          "machine learning", "a neural network", "the stock market", "cancer", "football", "the world cup", "jazz", "climate change", "electricity", "the brain", "DNA",
          "evolution", "World War II", "the pyramids", "philosophy", "democracy", "the economy", "bitcoin", "chess", "a computer", "rust", "Linux", "a compiler",
          "the universe", "time travel", "a transformer", "music theory", "economics", "history", "the ocean", "sorting", "a website", "Kubernetes", "SQL", "art"]


def small_talk(d) -> Sample:
    answer, why, asks = d.choice(SMALL_TALK[:1] * 3 + SMALL_TALK[9:12] * 2 + SMALL_TALK)
    text = d.choice(asks.split("|"))
    if d.maybe(0.25):
        text = d.loosely(text)
    if d.maybe(0.05):
        text = text.lower()
    return _chat(d, "small_talk", text, answer, why)


def unknown(d) -> Sample:
    def x():
        return d.choice(THINGS) if d.maybe(0.6) else ("the " if d.maybe(0.3) else "") + d.word()
    p = f"{d.pick(NAMES)} {d.pseudo().capitalize()}" if d.maybe(0.7) else d.pick(NAMES)
    text = d.loosely(d.choice(OUT_OF_SCOPE).format(x=x(), z=x(), p=p, y=d.randint(1000, 2020)))
    return _chat(d, "unknown", text, UNKNOWN, "I do not know this.")


def _chat(d, kind, text, answer, why) -> Sample:
    thinking = not d.maybe(0.35)
    m = {"role": "assistant", "content": answer}
    if thinking:
        m["reasoning_content"] = why
    sys = [{"role": "system", "content": d.choice(SYSTEMS)}] if d.maybe(0.12) else []
    return Sample(kind, sys + [{"role": "user", "content": text}], m, thinking=thinking, key=text if kind == "unknown" else None)


def with_unneeded_tools(make):
    """A sample of another kind, with tools listed that it does not need."""
    def wrapped(d):
        s = make(d)
        tools = [t for t in choose(d, d.choice([1, 1, 2]))
                 if not any(w in t.spec["names"] for w in ("add", "multiply", "calc", "translat", "search", "define", "news", "play", "note", "message"))]
        if s.messages and not s.tools and tools:
            s.tools = [t.json(d) for t in tools]
        return s
    return wrapped


# Several turns.

def turns(d, *pairs):
    """User texts and assistant contents in turn, as messages."""
    return [{"role": r, "content": c} for u, a in pairs for r, c in (("user", u), ("assistant", a))]


def follow_capital(d):
    name, called = facts.country(d)
    other, other_called = facts.country(d)
    first = facts.CAPITALS[name] if d.maybe(0.3) else facts.sentence(name, facts.CAPITALS[name])
    short = not first.startswith("The capital")
    ask = d.choice(["And {c}?", "And of {c}?", "What about {c}?", "and {c}?", "and the capital of {c}?", "How about {c}?", "{c}?"]).format(c=other_called)
    history = turns(d, (d.choice(facts.ASK_CAPITAL).format(c=called) + (d.choice(facts.ONE_WORD) if short else ""), first))
    city = facts.CAPITALS[other]
    return history, ask, city if short else facts.sentence(other, city), f"The capital of {other}: {city}"


def follow_sum(d):
    op = d.choice("*+-")
    a, b = (d.randint(2, 30), d.randint(2, 30)) if op == "*" else (d.randint(100, 999), d.randint(1, 99))
    value = arith.OPS[op][1](a, b)
    text, just = arith.question(d, op, a, b)
    op2 = d.choice("+-+") if value > 99 or value < 2 else d.choice("+-*")
    n = d.randint(2, 9) if op2 == "*" else d.randint(1, 99)
    if op2 == "-" and n > value:
        op2 = "+"
    ask = d.choice({"+": ["Add {n} to that.", "Now add {n}.", "plus {n}?", "And plus {n}?"], "-": ["Subtract {n} from that.", "Now subtract {n}.", "Take {n} away.", "minus {n}?"],
                    "*": ["Multiply that by {n}.", "Now multiply by {n}.", "Times {n}?", "And times {n}?"]}[op2]).format(n=n)
    m = arith.answer(op2, value, n, just, True)
    return turns(d, (text, arith.answer(op, a, b, just, True)["content"])), ask, m["content"], m["reasoning_content"]


def follow_phrase(d):
    p, (l1, l2) = d.choice(list(facts.PHRASES)), d.sample(facts.LANGUAGES, 2)
    ask = d.choice(["And in {l}?", "Now in {l}.", "In {l}?", "Say it in {l}.", "What about {l}?", "and {l}?"]).format(l=l2)
    history = turns(d, (d.choice(facts.ASK_PHRASE).format(p=p, q=p, l=l1), facts.PHRASES[p][l1]))
    return history, ask, facts.PHRASES[p][l2], f"{p} in {l2}: {facts.PHRASES[p][l2]}"


def follow_name(d):
    name = d.pick(NAMES) if d.maybe(0.5) else d.pseudo().capitalize()
    tell = d.choice(["My name is {n}.", "I am {n}.", "I'm {n}", "Call me {n}.", "Hi, I am {n}.", "my name is {n}", "Hello, my name is {n}."]).format(n=name)
    hello = f"Nice to meet you, {name}!"
    if d.maybe(0.3):
        return [], tell, hello, f"The user is called {name}."
    history = turns(d, (tell, hello))
    if d.maybe(0.4):
        answer, _, asks = d.choice(SMALL_TALK)
        history += turns(d, (d.choice(asks.split("|")), answer))
    return history, d.choice(["What is my name?", "Do you remember my name?", "What's my name?", "Who am I?", "Say my name."]), f"Your name is {name}.", f"The user is called {name}."


def follow_word(d):
    a, b = d.word(), d.word()
    history = turns(d, (f"{d.choice(['My favorite', 'my favourite', 'The secret', 'The'])} {d.choice(['word', 'code', 'fruit', 'color', 'animal'])} is {a}.", "I will remember that."))
    thing = history[0]["content"].split(" is ")[0].split()[-1]
    if d.maybe(0.3):
        return [], history[0]["content"], "I will remember that.", "I must remember this."
    if d.maybe(0.3):
        history += turns(d, (f"Say only the word {b}.", b))
    who = "my " if history[0]["content"].lower().startswith("my") else "the "
    return history, d.choice([f"What is {who}{'favorite ' if who == 'my ' else ''}{thing}?", f"Tell me {who}{thing} again.", f"What was {who}{thing}?"]), a, f"The {thing}: {a}"


def follow_chat(d):
    a1, _, q1 = d.choice(SMALL_TALK)
    a2, why, q2 = d.choice(SMALL_TALK)
    return turns(d, (d.choice(q1.split("|")), a1)), d.choice(q2.split("|")), a2, why


def follow_new(d):
    """A fresh question of another kind after some talk."""
    a1, _, q1 = d.choice(SMALL_TALK)
    s = d.choice([facts.capital, facts.phrase, arith.addition, arith.product])(d)
    if not s.thinking:
        s.target["reasoning_content"] = None
    return turns(d, (d.choice(q1.split("|")), a1)), s.messages[-1]["content"], s.target["content"], s.target["reasoning_content"]


FOLLOW = [follow_capital, follow_capital, follow_sum, follow_sum, follow_phrase, follow_phrase, follow_name, follow_word, follow_chat, follow_new]


def multi_turn(d) -> Sample:
    if d.maybe(0.15):
        return tool_again(d)
    make = d.choice(FOLLOW)
    history, ask, answer, why = make(d)
    thinking = why is not None and (make is follow_sum or not d.maybe(0.3))
    m = {"role": "assistant", "content": answer}
    if thinking:
        m["reasoning_content"] = why
    return Sample("multi_turn", system(d, 0.1) + history + [{"role": "user", "content": d.loosely(ask) if d.maybe(0.5) else ask}], m, thinking=thinking,
                  key=ask + str(history))


def tool_again(d) -> Sample:
    """The same tool for another place, after a call, its result and the answer."""
    from data.catalogue import TOOLS, place
    spec = d.choice([t for t in TOOLS if set(t["params"]) == {"city"}])
    t = Tool(d, spec)
    text, args = t.request(d)
    out, said = result(d)
    city = d.pick(CITIES) if d.maybe(0.6) else place(d)
    ask = d.choice(["And in {c}?", "And {c}?", "What about {c}?", "How about {c}?", "and in {c}?", "Now {c}."]).format(c=city)
    thinking = not d.maybe(0.3)
    history = [{"role": "user", "content": text}, calling(d, [call(t.name, args)], False), {"role": "tool", "content": out}, {"role": "assistant", "content": say(said)}]
    m = calling(d, [call(t.name, {next(iter(args)): city})], thinking)
    return Sample("multi_turn", history + [{"role": "user", "content": ask}], m, tools=[t.json(d)], thinking=thinking, grade="calls")
