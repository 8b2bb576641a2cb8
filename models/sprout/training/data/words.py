"""Word lists: cities, names, nouns, verbs."""

CITIES = """Lagos|Oslo|Paris|London|Berlin|Madrid|Rome|Lisbon|Tokyo|Osaka|Kyoto|Seoul|Beijing|Shanghai|Delhi|Mumbai|Chennai|Kolkata
Karachi|Lahore|Dhaka|Bangkok|Hanoi|Jakarta|Manila|Singapore|Sydney|Melbourne|Perth|Brisbane|Auckland|Wellington|Cairo|Nairobi|Accra
Dakar|Tunis|Algiers|Casablanca|Kampala|Kigali|Lusaka|Harare|Durban|Cape Town|Johannesburg|Ibadan|Kano|Abuja|Addis Ababa|Khartoum
Istanbul|Ankara|Izmir|Tehran|Baghdad|Dubai|Doha|Riyadh|Beirut|Amman|Athens|Sofia|Bucharest|Budapest|Vienna|Graz|Prague|Brno|Warsaw
Krakow|Gdansk|Vilnius|Riga|Tallinn|Helsinki|Turku|Stockholm|Gothenburg|Copenhagen|Aarhus|Bergen|Reykjavik|Dublin|Cork|Belfast|Glasgow
Edinburgh|Leeds|Manchester|Liverpool|Bristol|Cardiff|Amsterdam|Rotterdam|Utrecht|Brussels|Antwerp|Ghent|Cologne|Hamburg|Munich|Leipzig
Dresden|Bremen|Stuttgart|Zurich|Geneva|Basel|Bern|Milan|Turin|Naples|Florence|Venice|Bologna|Palermo|Barcelona|Seville|Valencia|Bilbao
Porto|Lyon|Marseille|Nice|Toulouse|Bordeaux|Nantes|Lille|Strasbourg|New York|Boston|Chicago|Denver|Dallas|Houston|Austin|Seattle
Portland|San Francisco|Los Angeles|San Diego|Phoenix|Las Vegas|Miami|Atlanta|Orlando|Detroit|Cleveland|Memphis|Nashville|New Orleans
Toronto|Montreal|Vancouver|Ottawa|Calgary|Quebec|Halifax|Mexico City|Monterrey|Havana|Kingston|Bogota|Medellin|Cali|Quito|Lima|Cusco
La Paz|Santiago|Valparaiso|Buenos Aires|Cordoba|Rosario|Montevideo|Rio de Janeiro|Sao Paulo|Salvador|Recife|Brasilia|Caracas|Panama
San Jose|Moscow|Kazan|Kyiv|Lviv|Odesa|Minsk|Tbilisi|Yerevan|Baku|Tashkent|Almaty|Kabul|Kathmandu|Colombo|Yangon|Taipei|Hong Kong|Macau
Busan|Sapporo|Nagoya|Hiroshima|Fukuoka|Shenzhen|Chengdu|Wuhan|Nanjing|Xian|Suva|Honolulu|Anchorage|Zagreb|Split|Belgrade|Sarajevo|Skopje
Tirana|Ljubljana|Bratislava|Luxembourg|Monaco|Valletta|Nicosia|Haifa|Jerusalem|Tel Aviv|Gaza|Damascus|Aleppo|Basra|Kuwait City|Muscat
Sanaa|Aden|Mecca|Medina|Jeddah|Mombasa|Dodoma|Arusha|Maputo|Luanda|Kinshasa|Douala|Yaounde|Lome|Cotonou|Abidjan|Bamako|Niamey|Rabat
Fez|Marrakesh|Tangier|Tripoli|Benghazi|Alexandria|Luxor|Aswan""".replace("\n", "|").split("|")

NAMES = """Ana|Ben|Carla|David|Emma|Felix|Grace|Hugo|Ines|Jonas|Kira|Liam|Mia|Noah|Olga|Paul|Quinn|Rosa|Sam|Tara|Uma|Victor|Wendy|Xavier|Yara
Zoe|Amina|Bilal|Chidi|Dayo|Efe|Fatima|Gita|Hassan|Ibrahim|Jamal|Kofi|Leila|Musa|Nadia|Omar|Priya|Rafael|Sofia|Tunde|Usha|Viktor|Wei|Ximena
Yusuf|Zara|Alice|Bob|Charlie|Dora|Eve|Frank|Gina|Harry|Irene|Jack|Karen|Laura|Mark|Nina|Oscar|Peter|Rachel|Steve|Tom|Ursula|Vera|Walter
Anna|Boris|Clara|Dmitri|Elena|Fiona|Greta|Hans|Ivan|Julia|Klaus|Lena|Maria|Nils|Otto|Petra|Rolf|Sven|Thea|Ulla|Akira|Hana|Kenji|Mei|Ren
Sakura|Yuki|Chen|Ling|Jin|Min|Aiko|Daniel|Lucas|Marco|Luca|Giulia|Pedro|Pablo|Lucia|Diego|Camila|Mateo|Valeria|Andre|Joao|Beatriz|Ahmed
Aisha|Khalid|Mariam|Samir|Layla|Tariq|Zainab|Ngozi|Emeka|Ada|Kwame|Abena|Thabo|Lerato|Sipho|Wanjiru|Otieno|Arjun|Deepa|Kiran|Lakshmi
Rohan|Sanjay|Vikram|Henry|George|William|Oliver|Ethan|Mason|Logan|Lily|Ella|Chloe|Ruby|Ivy|Max|Leo|Theo|Finn|Otis|Maya|Nora|Iris|Cleo
Robin|Alex|Jordan|Casey|Morgan|Taylor|Jamie|Riley|Dana|Lee|Kim|Pat|Chris|Sasha|Misha|Niko|Petros|Eleni|Yannis|Dimitra|Bruno|Elsa|Ida
Astrid|Freya|Erik|Lars|Magnus|Sigrid|Tove|Ruth|Esther|Miriam|Joel|Caleb|Naomi|Simon|Hector|Iker|Jorge|Marta|Nuria|Teresa""".replace("\n", "|").split("|")

NOUNS = """banana|apple|orange|lemon|cherry|grape|mango|peach|pear|plum|melon|kiwi|olive|onion|carrot|potato|tomato|pepper|garlic|ginger|bread|butter
cheese|milk|honey|sugar|salt|rice|pasta|soup|salad|pizza|cake|cookie|coffee|tea|juice|water|wine|beer|egg|fish|chicken|beef|pork|bean|nut
cat|dog|horse|cow|pig|sheep|goat|duck|goose|hen|mouse|rat|rabbit|fox|wolf|bear|lion|tiger|zebra|monkey|elephant|giraffe|camel|whale
dolphin|shark|seal|penguin|eagle|owl|crow|parrot|swan|frog|toad|snake|lizard|turtle|spider|ant|bee|wasp|moth|butterfly|snail|worm|crab
tree|leaf|root|branch|flower|rose|tulip|daisy|lily|grass|moss|fern|forest|garden|field|meadow|hill|mountain|valley|river|lake|ocean|sea
beach|island|desert|cave|rock|stone|sand|mud|clay|sun|moon|star|planet|comet|sky|cloud|rain|snow|ice|wind|storm|thunder|fog|frost|fire
smoke|ash|flame|lamp|candle|torch|mirror|window|door|wall|roof|floor|ceiling|stairs|kitchen|bedroom|bathroom|office|garage|attic|cellar
table|chair|desk|bed|sofa|shelf|drawer|box|basket|bag|bottle|cup|glass|plate|bowl|spoon|fork|knife|pan|pot|oven|fridge|clock|watch|phone
radio|camera|screen|keyboard|printer|cable|battery|engine|wheel|car|bus|train|tram|truck|boat|ship|plane|rocket|bicycle|bridge|road|street
station|airport|harbor|market|shop|bank|school|library|museum|theater|hospital|church|temple|castle|tower|palace|farm|mill|factory|mine
book|page|letter|paper|pencil|pen|brush|paint|ink|map|coin|key|lock|rope|chain|nail|hammer|saw|drill|needle|thread|cloth|shirt|coat
hat|glove|scarf|shoe|boot|sock|belt|button|ring|necklace|crown|mask|drum|flute|guitar|piano|violin|trumpet|song|dance|music|story|poem
game|ball|kite|doll|puzzle|chess|dice|card|prize|gift|party|wedding|summer|winter|spring|autumn|morning|evening|night|noon|monday|friday
king|queen|prince|knight|soldier|doctor|nurse|teacher|farmer|baker|sailor|pilot|artist|singer|writer|judge|thief|wizard|giant|dragon|robot
gold|silver|copper|iron|steel|bronze|glass|plastic|wood|cotton|wool|silk|leather|rubber|paper|diamond|ruby|pearl|amber|jade|crystal|marble
red|blue|green|yellow|purple|pink|brown|black|white|gray|violet|scarlet|ocean|peace|hope|dream|memory|secret|shadow|silence|answer|question
yes|no|maybe|hello|thanks|done|ready|maple|sprout|pine|cedar|birch|willow|acorn|pumpkin|spinach|broccoli|walnut|almond|waffle|pancake|noodle
invoice|order|ticket|report|message|email|account|customer|product|price|budget|payment|project|meeting|deadline|server|database|backup|folder
file|image|video|document|password|token|session|device|sensor|signal|channel|package|parcel|address|country|weather|traffic|flight|hotel
playlist|recipe|workout|calendar|reminder|contact|schedule|task|note|alarm|timer|light|heater|fan|curtain|oxygen|carbon|helium|neon""".replace("\n", "|").split("|")
NOUNS = sorted(set(NOUNS))

VERBS = """get|find|create|delete|update|list|send|open|close|start|stop|check|show|fetch|load|save|count|move|copy|rename|print|scan|lock|unlock
share|book|cancel|order|buy|sell|pay|track|plan|sort|filter|merge|split|build|test|run|watch|call|invite|join|leave|measure|compare|rate|review
archive|restore|publish|schedule|reserve|assign|approve|reject|convert|draw|paint|clean|fix|paste|upload|download""".replace("\n", "|").split("|")
