"""Tools that people really list, each with ways to ask for it, and made-up tools without end.

A tool spec has ``names``, ``about`` (descriptions), ``params`` {canonical: Param} and ``asks`` (templates over the canonical
parameter names; a request fills exactly the parameters its template mentions).
"""

from dataclasses import dataclass

from data.words import CITIES, NAMES, NOUNS, VERBS

LANGS = ["French", "Spanish", "German", "Italian", "Portuguese", "Dutch", "Japanese", "Swahili", "Polish", "Turkish", "Korean", "Arabic", "Hindi", "Greek",
         "Swedish", "Czech", "Finnish", "Danish", "Russian", "Chinese"]
CURRENCIES = ["USD", "EUR", "GBP", "JPY", "CHF", "NGN", "KES", "INR", "CAD", "AUD", "SEK", "NOK", "PLN", "BRL", "MXN", "ZAR", "CNY", "KRW"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "today", "tomorrow", "Monday", "Friday", "next week"]


@dataclass
class Param:
    names: list
    type: str
    make: object
    about: list = ()
    enum: list = None


def integer(low, high):
    return lambda d: d.randint(low, high)


def number(d):
    """Whole or with a decimal point; sometimes negative."""
    v = d.randint(0, 10 ** d.randint(1, 4))
    v = v if d.maybe(0.75) else round(v + d.randint(1, 9) / 10, 1)
    return -v if d.maybe(0.07) else v


def place(d):
    if d.maybe(0.6):
        return d.pick(CITIES)
    return d.pseudo().capitalize() + (" " + d.pseudo().capitalize() if d.maybe(0.1) else "")


def person(d):
    return d.pick(NAMES) if d.maybe(0.6) else d.pseudo().capitalize()


def thing(d):
    return d.word() if d.maybe(0.7) else f"{d.word()} {d.word()}"


def topic(d):
    return " ".join(d.word() for _ in range(d.randint(1, 3)))


def email(d):
    return f"{d.pick(NAMES).lower()}@{d.pseudo()}.{d.choice(['com', 'org', 'net', 'io'])}"


def code(d):
    r = d.random()
    if r < 0.4:
        return d.letters(2, 4).upper()
    if r < 0.7:
        return d.letters(1, 3).upper() + str(d.randint(1, 9999))
    return f"{d.letters(1, 4)}-{d.randint(1, 9999)}"


def path(d):
    return f"{d.pick(NOUNS)}{d.choice(['', '_' + d.pick(NOUNS)])}.{d.choice(['txt', 'csv', 'md', 'json', 'py', 'pdf', 'log'])}"


def clock(d):
    return f"{d.randint(0, 23)}:{d.randint(0, 59):02d}"


def date(d):
    return f"{d.randint(2020, 2030)}-{d.randint(1, 12):02d}-{d.randint(1, 28):02d}"


def expression(d):
    return f"{d.randint(0, 999)} {d.choice('+-*/')} {d.randint(1, 999)}"


def among(items):
    return lambda d: d.choice(items)


CITY = Param(["city", "city", "city", "location", "location", "place", "town"], "string", place,
             ["The city", "City name", "The city name", "Name of the city", "The city to look up", "The location", "City and country"])
PERSON = Param(["name", "person", "user", "contact", "recipient"], "string", person, ["The person", "Who", "Name of the person"])
A, B = Param(["a", "a", "x", "first"], "number", number, ["First number"]), Param(["b", "b", "y", "second"], "number", number, ["Second number"])

TOOLS = [
    dict(names="get_weather|get_weather|get_current_weather|weather|fetch_weather|current_weather|weather_lookup|getWeather",
         about="Get the weather for a city|Get the current weather|Weather of a city|Current weather in a given location|Get current weather for a city|Looks up the weather",
         params={"city": CITY},
         asks="What is the weather in {city}?|What is the weather in {city}?|What's the weather like in {city}?|Weather in {city}?|weather in {city}|How is the weather in {city}?|How is the weather in {city} today?|Is it raining in {city}?|Is it cold in {city}?|Tell me the weather in {city}.|What is the weather like in {city} right now?|Get the weather for {city}.|I am going to {city}, how is the weather?|Check the weather in {city}|What's the weather in {city}?|Is it sunny in {city} today?|How warm is it in {city}?|What is the temperature in {city}?"),
    dict(names="get_weather|get_current_weather|weather|get_forecast|forecast", about="Get the weather for a city|Get the current weather in a given location|Weather forecast",
         params={"city": CITY, "unit": Param(["unit", "units"], "string", among(["celsius", "fahrenheit"]), ["The unit", "Temperature unit"], ["celsius", "fahrenheit"])},
         asks="What is the weather in {city}?|What is the weather in {city} in {unit}?|Weather in {city} in {unit}|Weather in {city}?|How is the weather in {city}, in {unit}?|Tell me the weather in {city}. Use {unit}.|How is the weather in {city}?|What's the temperature in {city} in {unit}?"),
    dict(names="get_time|get_current_time|current_time|time_in|clock", about="Get the time in a city|Current time at a place|Tells the time|Get the current time",
         params={"city": Param(["city", "location", "timezone", "place"], "string", place, ["The city", "Where"])},
         asks="What time is it in {city}?|What is the time in {city}?|Tell me the time in {city}.|time in {city}|Current time in {city}?|What's the time in {city} now?"),
    dict(names="add|sum|add_numbers|plus", about="Add two numbers|Adds a and b|Sum of two numbers", params={"a": A, "b": B},
         asks="Add {a} and {b}.|What is {a} plus {b}?|What is {a} + {b}?|Sum {a} and {b}.|Use the tool to add {a} and {b}.|{a} + {b}"),
    dict(names="multiply|product|mul|multiply_numbers", about="Multiply two numbers|Product of two numbers", params={"a": A, "b": B},
         asks="Multiply {a} by {b}.|What is {a} times {b}?|What is {a} * {b}?|Multiply {a} and {b}|{a} x {b}"),
    dict(names="calculate|calculator|eval|compute", about="Evaluate an expression|Calculator|Do arithmetic", params={"expression": Param(["expression", "expr", "input"], "string", expression, ["The expression"])},
         asks="Calculate {expression}.|What is {expression}?|Compute {expression}|Work out {expression}."),
    dict(names="search|web_search|search_web|google|lookup", about="Search the web|Search for something|Web search|Look something up on the internet",
         params={"query": Param(["query", "q", "query", "text", "term"], "string", topic, ["What to search", "The query", "Search terms"])},
         asks="Search for {query}.|Search the web for {query}|Look up {query}.|Find information about {query}.|Search {query}|Please search for {query}"),
    dict(names="search|search_products|find_items", about="Search for products|Search with a limit", params={
        "query": Param(["query", "q", "keyword"], "string", thing, ["What to search"]), "limit": Param(["limit", "n", "count", "max_results"], "integer", integer(1, 50), ["How many"])},
         asks="Search for {query} and show {limit} results.|Find {limit} results for {query}.|Search {query}, at most {limit}.|Search for {query}."),
    dict(names="send_email|email|send_mail", about="Send an email|Sends a mail to someone", params={"to": Param(["to", "recipient", "address"], "string", email, ["Email address"]),
         "subject": Param(["subject", "title", "body", "text"], "string", topic, ["The subject", "The text"])},
         asks="Send an email to {to} about {subject}.|Email {to} about {subject}.|Write to {to}: {subject}|Send {to} an email that says {subject}"),
    dict(names="send_message|message|text_message|send_sms", about="Send a message to someone|Send a text", params={"to": Param(["to", "recipient", "name", "contact"], "string", person, ["Who gets it"]),
         "text": Param(["text", "message", "body", "content"], "string", topic, ["The message"])},
         asks="Send a message to {to}: {text}|Tell {to} that {text}|Message {to}: {text}|Text {to} saying {text}"),
    dict(names="set_timer|timer|start_timer", about="Set a timer|Start a countdown", params={"minutes": Param(["minutes", "duration", "time", "mins"], "integer", integer(1, 120), ["How long, in minutes"])},
         asks="Set a timer for {minutes} minutes.|Start a {minutes} minute timer.|Timer for {minutes} minutes|Wake me in {minutes} minutes."),
    dict(names="set_alarm|alarm|create_alarm", about="Set an alarm|Alarm clock", params={"time": Param(["time", "at", "when"], "string", clock, ["When"])},
         asks="Set an alarm for {time}.|Wake me at {time}.|Alarm at {time}|I need an alarm at {time}."),
    dict(names="translate|translate_text|translator", about="Translate text|Translate text to another language", params={"text": Param(["text", "phrase", "input"], "string", topic, ["The text"]),
         "language": Param(["language", "target", "to", "lang"], "string", among(LANGS), ["Target language"])},
         asks="Translate {text} to {language}.|Translate '{text}' into {language}.|How do you say {text} in {language}?|Put {text} into {language}."),
    dict(names="get_stock_price|stock_price|get_quote|stock", about="Get the price of a stock|Stock price", params={"symbol": Param(["symbol", "ticker", "stock"], "string", lambda d: d.letters(2, 4).upper(), ["Ticker"])},
         asks="What is the price of {symbol}?|Stock price of {symbol}|How much is {symbol} stock?|Get the quote for {symbol}."),
    dict(names="convert_currency|convert|exchange", about="Convert money|Convert an amount to another currency", params={"amount": Param(["amount", "value"], "number", number, ["How much"]),
         "currency": Param(["currency", "to", "target"], "string", among(CURRENCIES), ["Target currency"])},
         asks="Convert {amount} dollars to {currency}.|How much is {amount} dollars in {currency}?|Change {amount} into {currency}."),
    dict(names="play_music|play_song|play|start_music", about="Play music|Play a song", params={"song": Param(["song", "title", "track", "artist"], "string", thing, ["What to play"])},
         asks="Play {song}.|Put on {song}.|I want to hear {song}.|Play some {song}"),
    dict(names="create_note|add_note|save_note|write_note", about="Save a note|Create a note", params={"text": Param(["text", "note", "content"], "string", topic, ["The note"])},
         asks="Make a note: {text}|Note that {text}|Write down {text}.|Save a note saying {text}"),
    dict(names="read_file|open_file|cat|view_file", about="Read a file|Open a file|Show a file's content", params={"path": Param(["path", "file", "filename", "name"], "string", path, ["The file"])},
         asks="Read {path}.|Open the file {path}.|Show me {path}|What is in {path}?|Open {path}"),
    dict(names="delete_file|remove_file|rm", about="Delete a file|Remove a file", params={"path": Param(["path", "file", "filename"], "string", path, ["The file"])},
         asks="Delete {path}.|Remove the file {path}.|Delete the file {path}"),
    dict(names="get_user|find_user|user_info|lookup_user", about="Find a user|Get a user by id", params={"id": Param(["id", "user_id", "number"], "integer", integer(1, 9999), ["User id"])},
         asks="Find user {id}.|Who is user {id}?|Show the user with id {id}.|Get user {id}"),
    dict(names="track_order|order_status|get_order", about="Track an order|Status of an order", params={"order": Param(["order_id", "order", "id", "number"], "string", code, ["Order number"])},
         asks="Where is my order {order}?|Track order {order}.|What is the status of order {order}?|Has order {order} arrived?"),
    dict(names="book_table|reserve_table|reserve", about="Book a table|Reserve a table at a restaurant", params={"restaurant": Param(["restaurant", "place", "name"], "string", place, ["Where"]),
         "people": Param(["people", "guests", "size", "seats"], "integer", integer(1, 20), ["How many people"])},
         asks="Book a table at {restaurant} for {people} people.|Reserve a table for {people} at {restaurant}.|Table for {people} at {restaurant}"),
    dict(names="turn_on_light|light_on|switch_light", about="Turn on a light|Switch on the light in a room", params={"room": Param(["room", "place", "name"], "string", lambda d: d.pick(NOUNS), ["Which room"])},
         asks="Turn on the light in the {room}.|Switch on the {room} light.|Light on in the {room}|Lights on in the {room}"),
    dict(names="roll_dice|dice|roll", about="Roll a die|Roll dice", params={"sides": Param(["sides", "n", "faces"], "integer", integer(2, 100), ["Number of sides"])},
         asks="Roll a die with {sides} sides.|Roll a {sides} sided die.|Throw a dice with {sides} sides"),
    dict(names="get_news|news|latest_news", about="Get the news|News about a topic", params={"topic": Param(["topic", "about", "subject", "query"], "string", thing, ["The topic"])},
         asks="What is the news about {topic}?|News about {topic}|Any news on {topic}?|Get news on {topic}."),
    dict(names="define|define_word|dictionary|get_definition", about="Define a word|Dictionary", params={"word": Param(["word", "term", "text"], "string", lambda d: d.word(), ["The word"])},
         asks="Define {word}.|What does {word} mean?|What is the meaning of {word}?|definition of {word}"),
    dict(names="get_distance|distance|route", about="Distance between two cities|How far two places are", params={"start": Param(["from", "start", "origin", "a"], "string", place, ["Start"]),
         "end": Param(["to", "end", "destination", "b"], "string", place, ["End"])},
         asks="How far is it from {start} to {end}?|Distance from {start} to {end}|What is the distance between {start} and {end}?|Route from {start} to {end}."),
    dict(names="book_flight|find_flight|search_flights|flights", about="Find a flight|Book a flight", params={"start": Param(["from", "origin", "start"], "string", place, ["From"]),
         "end": Param(["to", "destination", "end"], "string", place, ["To"])},
         asks="Book a flight from {start} to {end}.|Find flights from {start} to {end}.|I want to fly from {start} to {end}|Flight from {start} to {end}"),
    dict(names="create_event|add_event|schedule_event|schedule", about="Create a calendar event|Add an event", params={"title": Param(["title", "name", "event"], "string", thing, ["The title"]),
         "date": Param(["date", "day", "when"], "string", lambda d: date(d) if d.maybe(0.5) else d.choice(DAYS), ["The date"])},
         asks="Schedule {title} on {date}.|Add {title} to my calendar for {date}.|Create an event {title} on {date}|Put {title} in the calendar for {date}."),
    dict(names="get_population|population", about="Population of a place|Number of people in a city", params={"place": Param(["place", "city", "country", "location"], "string", place, ["Where"])},
         asks="What is the population of {place}?|How many people live in {place}?|population of {place}"),
    dict(names="set_temperature|thermostat|set_heating", about="Set the heating|Set the thermostat", params={"degrees": Param(["degrees", "temperature", "value"], "number", integer(10, 30), ["Degrees"])},
         asks="Set the heating to {degrees} degrees.|Set the temperature to {degrees}.|Make it {degrees} degrees in here."),
    dict(names="buy|buy_item|purchase|order_item", about="Buy something|Order an item", params={"item": Param(["item", "product", "name"], "string", thing, ["What to buy"]),
         "quantity": Param(["quantity", "count", "amount", "n"], "integer", integer(1, 99), ["How many"])},
         asks="Buy {quantity} of {item}.|Order {quantity} {item}.|I want {quantity} pieces of {item}.|Purchase {item}, {quantity} of them"),
]


def made_up(d) -> dict:
    """A tool nobody has seen: a verb, a noun, one or two parameters."""
    verb = d.choice(VERBS)
    noun = d.pick(NOUNS) if d.maybe(0.6) else d.pseudo()
    joiner = d.choice(["_"] * 6 + ["-", "."])
    params, phrases = {}, []
    kinds = [("string", thing), ("string", person), ("string", place), ("integer", integer(0, 9999)), ("number", number), ("string", code)]
    for i in range(d.choice([1, 1, 2])):
        while True:
            p = d.pick(NOUNS) if d.maybe(0.7) else d.pseudo()
            if p not in params and p != noun:
                break
        kind, make = d.choice(kinds)
        params[p] = Param([p], kind, make, [f"The {p}", p.capitalize(), f"{p} of the {noun}"])
        phrases.append(d.choice(["{p} {{{p}}}", "{p} {{{p}}}", "the {p} {{{p}}}", "{p}: {{{p}}}", "{p} = {{{p}}}"]).format(p=p))
    with_ = d.choice(["with", "for", "using", "with"])
    asks = [f"{verb.capitalize()} the {noun} {with_} {' and '.join(phrases)}.", f"{verb} {noun} {with_} {' and '.join(phrases)}",
            f"Please {verb} a {noun} {with_} {', '.join(phrases)}", f"Can you {verb} the {noun} {with_} {' and '.join(phrases)}?"]
    return dict(names=verb + joiner + noun, about=f"{verb.capitalize()} a {noun}|{verb.capitalize()} the {noun}", params=params, asks="|".join(asks))
