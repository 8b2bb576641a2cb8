"""Capitals of countries and simple phrases in other languages, asked in many ways and as raw completions."""

from data.draw import Sample

CAPITALS = dict(p.split("=") for p in """Afghanistan=Kabul|Albania=Tirana|Algeria=Algiers|Andorra=Andorra la Vella|Angola=Luanda|Argentina=Buenos Aires
Armenia=Yerevan|Australia=Canberra|Austria=Vienna|Azerbaijan=Baku|the Bahamas=Nassau|Bahrain=Manama|Bangladesh=Dhaka|Barbados=Bridgetown
Belarus=Minsk|Belgium=Brussels|Belize=Belmopan|Benin=Porto-Novo|Bhutan=Thimphu|Bolivia=Sucre|Bosnia and Herzegovina=Sarajevo|Botswana=Gaborone
Brazil=Brasília|Brunei=Bandar Seri Begawan|Bulgaria=Sofia|Burkina Faso=Ouagadougou|Burundi=Gitega|Cambodia=Phnom Penh|Cameroon=Yaoundé
Canada=Ottawa|Cape Verde=Praia|Chad=N'Djamena|Chile=Santiago|China=Beijing|Colombia=Bogotá|Costa Rica=San José|Croatia=Zagreb|Cuba=Havana
Cyprus=Nicosia|Denmark=Copenhagen|Djibouti=Djibouti|the Dominican Republic=Santo Domingo|Ecuador=Quito|Egypt=Cairo|El Salvador=San Salvador
Eritrea=Asmara|Estonia=Tallinn|Ethiopia=Addis Ababa|Fiji=Suva|Finland=Helsinki|France=Paris|Gabon=Libreville|the Gambia=Banjul|Georgia=Tbilisi
Germany=Berlin|Ghana=Accra|Greece=Athens|Grenada=St. George's|Guatemala=Guatemala City|Guinea=Conakry|Guyana=Georgetown|Haiti=Port-au-Prince
Honduras=Tegucigalpa|Hungary=Budapest|Iceland=Reykjavik|India=New Delhi|Indonesia=Jakarta|Iran=Tehran|Iraq=Baghdad|Ireland=Dublin|Israel=Jerusalem
Italy=Rome|Ivory Coast=Yamoussoukro|Jamaica=Kingston|Japan=Tokyo|Jordan=Amman|Kazakhstan=Astana|Kenya=Nairobi|Kuwait=Kuwait City|Kyrgyzstan=Bishkek
Laos=Vientiane|Latvia=Riga|Lebanon=Beirut|Lesotho=Maseru|Liberia=Monrovia|Libya=Tripoli|Liechtenstein=Vaduz|Lithuania=Vilnius|Luxembourg=Luxembourg
Madagascar=Antananarivo|Malawi=Lilongwe|Malaysia=Kuala Lumpur|the Maldives=Malé|Mali=Bamako|Malta=Valletta|Mauritania=Nouakchott|Mauritius=Port Louis
Mexico=Mexico City|Moldova=Chișinău|Monaco=Monaco|Mongolia=Ulaanbaatar|Montenegro=Podgorica|Morocco=Rabat|Mozambique=Maputo|Myanmar=Naypyidaw
Namibia=Windhoek|Nepal=Kathmandu|the Netherlands=Amsterdam|New Zealand=Wellington|Nicaragua=Managua|Niger=Niamey|Nigeria=Abuja|North Korea=Pyongyang
North Macedonia=Skopje|Norway=Oslo|Oman=Muscat|Pakistan=Islamabad|Panama=Panama City|Papua New Guinea=Port Moresby|Paraguay=Asunción|Peru=Lima
the Philippines=Manila|Poland=Warsaw|Portugal=Lisbon|Qatar=Doha|Romania=Bucharest|Russia=Moscow|Rwanda=Kigali|Samoa=Apia|Saudi Arabia=Riyadh
Senegal=Dakar|Serbia=Belgrade|Sierra Leone=Freetown|Singapore=Singapore|Slovakia=Bratislava|Slovenia=Ljubljana|Somalia=Mogadishu
South Africa=Pretoria|South Korea=Seoul|South Sudan=Juba|Spain=Madrid|Sri Lanka=Colombo|Sudan=Khartoum|Suriname=Paramaribo|Sweden=Stockholm
Switzerland=Bern|Syria=Damascus|Taiwan=Taipei|Tajikistan=Dushanbe|Tanzania=Dodoma|Thailand=Bangkok|Togo=Lomé|Tonga=Nukuʻalofa
Trinidad and Tobago=Port of Spain|Tunisia=Tunis|Turkey=Ankara|Turkmenistan=Ashgabat|Uganda=Kampala|Ukraine=Kyiv|the United Arab Emirates=Abu Dhabi
the United Kingdom=London|the United States=Washington, D.C.|Uruguay=Montevideo|Uzbekistan=Tashkent|Vanuatu=Port Vila|Venezuela=Caracas|Vietnam=Hanoi
Yemen=Sanaa|Zambia=Lusaka|Zimbabwe=Harare""".replace("\n", "|").split("|"))
CAPITALS["Sri Lanka"] = "Colombo"
COUNTRIES = list(CAPITALS)
OTHER_NAMES = {"the United States": ["the USA", "the US", "America", "USA"], "the United Kingdom": ["the UK", "Britain", "England", "UK"],
               "the Netherlands": ["Netherlands", "Holland"], "the Philippines": ["Philippines"], "Turkey": ["Türkiye"],
               "Ivory Coast": ["Côte d'Ivoire"], "the United Arab Emirates": ["the UAE", "UAE"], "Myanmar": ["Burma"]}

PHRASES = {
    "hello": "Bonjour|Hola|Hallo|Ciao|Olá|Hallo|こんにちは",
    "good morning": "Bonjour|Buenos días|Guten Morgen|Buongiorno|Bom dia|Goedemorgen|おはようございます",
    "good evening": "Bonsoir|Buenas tardes|Guten Abend|Buonasera|Boa tarde|Goedenavond|こんばんは",
    "good night": "Bonne nuit|Buenas noches|Gute Nacht|Buonanotte|Boa noite|Goedenacht|おやすみなさい",
    "goodbye": "Au revoir|Adiós|Auf Wiedersehen|Arrivederci|Adeus|Tot ziens|さようなら",
    "thank you": "Merci|Gracias|Danke|Grazie|Obrigado|Dank je|ありがとう",
    "please": "S'il vous plaît|Por favor|Bitte|Per favore|Por favor|Alsjeblieft|お願いします",
    "yes": "Oui|Sí|Ja|Sì|Sim|Ja|はい",
    "no": "Non|No|Nein|No|Não|Nee|いいえ",
    "how are you": "Comment ça va ?|¿Cómo estás?|Wie geht es dir?|Come stai?|Como vai?|Hoe gaat het?|お元気ですか",
    "welcome": "Bienvenue|Bienvenido|Willkommen|Benvenuto|Bem-vindo|Welkom|ようこそ",
    "see you tomorrow": "À demain|Hasta mañana|Bis morgen|A domani|Até amanhã|Tot morgen|また明日",
    "happy birthday": "Joyeux anniversaire|Feliz cumpleaños|Alles Gute zum Geburtstag|Buon compleanno|Feliz aniversário|Gefeliciteerd|お誕生日おめでとう",
    "I love you": "Je t'aime|Te quiero|Ich liebe dich|Ti amo|Eu te amo|Ik hou van je|愛しています",
    "cat": "chat|gato|Katze|gatto|gato|kat|猫",
    "dog": "chien|perro|Hund|cane|cão|hond|犬",
    "water": "eau|agua|Wasser|acqua|água|water|水",
    "bread": "pain|pan|Brot|pane|pão|brood|パン",
}
LANGUAGES = ["French", "Spanish", "German", "Italian", "Portuguese", "Dutch", "Japanese"]
PHRASES = {k: dict(zip(LANGUAGES, v.split("|"))) for k, v in PHRASES.items()}
SYNONYMS = {"hello": ["hi", "hello", "hello"], "goodbye": ["bye", "goodbye"], "thank you": ["thanks", "thank you", "thank you"]}

ASK_CAPITAL = ["What is the capital of {c}?"] * 6 + [
    "What's the capital of {c}?", "whats the capital of {c}", "Capital of {c}?", "capital of {c}", "Tell me the capital of {c}.",
    "Name the capital of {c}.", "Which city is the capital of {c}?", "What is {c}'s capital?", "What city is the capital of {c}?",
    "Do you know the capital of {c}?", "Can you tell me the capital of {c}?", "I need the capital of {c}.", "{c}: what is its capital?",
    "What is the capital city of {c}?", "Which city is {c}'s capital?", "{c} capital?"]
ONE_WORD = [" One word.", " Answer with just the name.", " Just the city.", " Answer in one word.", " Only the name, please.", " Reply with just the city."]
COMPLETE = ["The capital of {c} is"] * 6 + ["The capital city of {c} is", "{C}'s capital is", "The name of the capital of {c} is", "the capital of {c} is"]
ASK_PHRASE = ["Say {p} in {l}.", "Say {q} in {l}.", "How do you say {q} in {l}?", "What is {q} in {l}?", "Translate {q} to {l}.",
              "Translate {q} into {l}.", "{q} in {l}", "How do I say {p} in {l}?", "What's {q} in {l}?", "What is the {l} for {q}?",
              "{p} in {l}?", "Please say {p} in {l}.", "Can you say {p} in {l}?", "Give me {q} in {l}.", "{l} for {q}?"]


def country(d):
    """A country and a way people call it."""
    name = d.choice(COUNTRIES)
    called = d.choice(OTHER_NAMES[name]) if name in OTHER_NAMES and d.maybe(0.4) else name
    return name, called.lower() if d.maybe(0.1) else called


def sentence(called: str, city: str) -> str:
    return f"The capital of {called} is {city}" + ("" if city.endswith(".") else ".")


def capital_answer(name: str, called: str, short: bool, thinking: bool) -> dict:
    city = CAPITALS[name]
    m = {"role": "assistant", "content": city if short else sentence(name, city)}
    return {**m, "reasoning_content": f"The capital of {name}: {city}"} if thinking else m


def capital(d) -> Sample:
    name, called = country(d)
    text = d.loosely(d.choice(ASK_CAPITAL).format(c=called))
    short = d.maybe(0.3)
    if short:
        text = text.rstrip() + d.choice(ONE_WORD)
    thinking = not d.maybe(0.3)
    return Sample("capital", [{"role": "user", "content": text}], capital_answer(name, called, short, thinking),
                  thinking=thinking, key=text)


def country_of(d) -> Sample:
    """The way back: which country has this capital."""
    name = d.choice([c for c in COUNTRIES if CAPITALS[c] != c])
    city = CAPITALS[name]
    text = d.loosely(d.choice(["Which country has the capital {x}?", "{x} is the capital of which country?", "Of which country is {x} the capital?",
                               "What country is {x} the capital of?"]).format(x=city))
    thinking = not d.maybe(0.3)
    m = {"role": "assistant", "content": f"{city} is the capital of {name}."}
    if thinking:
        m["reasoning_content"] = f"The capital of {name}: {city}"
    return Sample("country", [{"role": "user", "content": text}], m, thinking=thinking, key=text)


def capital_completion(d) -> Sample:
    name, called = country(d)
    text = d.choice(COMPLETE).format(c=called, C=called[0].upper() + called[1:])
    city = CAPITALS[name]
    lead = ""
    if d.maybe(0.3):
        other, _ = country(d)
        lead = sentence(other, CAPITALS[other]) + d.choice([" ", "\n"])
    end = "" if city.endswith(".") else "."
    return Sample("completion", [], {"content": f" {city}{end}"}, key=text + str(len(lead) > 0), prompt=lead + text)


def other_completion(d) -> Sample:
    """Raw text of other sorts: sums, phrases, counting."""
    r = d.random()
    if r < 0.4:
        a, b = d.randint(0, 20), d.randint(0, 20)
        op = d.choice("+-*") if a >= b else d.choice("+*")
        value = {"+": a + b, "-": a - b, "*": a * b}[op]
        text, out = f"{a} {op} {b} =", f" {value}"
    elif r < 0.7:
        p, l = d.choice(list(PHRASES)), d.choice(LANGUAGES)
        text, out = d.choice([f"The {l} for {p} is", f"{p[0].upper() + p[1:]} in {l} is", f"In {l}, {p} is"]), f" {PHRASES[p][l]}"
    else:
        start = d.randint(0, 40)
        n = d.randint(3, 6)
        text = ", ".join(str(start + i) for i in range(n)) + ","
        out = " " + ", ".join(str(start + n + i) for i in range(4))
    return Sample("completion_other", [], {"content": out}, key=text, prompt=text)


def phrase(d) -> Sample:
    p, l = d.choice(list(PHRASES)), d.choice(LANGUAGES)
    said = d.choice(SYNONYMS.get(p, [p]))
    q = d.choice(["'{}'", '"{}"', "{}", "{}"]).format(said)
    text = d.loosely(d.choice(ASK_PHRASE).format(p=said, q=q, l=l.lower() if d.maybe(0.1) else l))
    thinking = not d.maybe(0.35)
    out = PHRASES[p][l]
    m = {"role": "assistant", "content": out}
    if thinking:
        m["reasoning_content"] = f"{p} in {l}: {out}"
    return Sample("phrase", [{"role": "user", "content": text}], m, thinking=thinking, key=text)
