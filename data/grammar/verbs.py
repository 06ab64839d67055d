"""The verbs of the demo grammar with their frames, one a line, and those with a construction of their own."""

from __future__ import annotations

from data.grammar.words import Case, Kind, Verb

_P, _L = Kind.PERSON, Kind.LIVING
_SMALL = Kind.THING | Kind.TEXT | Kind.CLOTHES
_DAT = Case.DAT

BE = Verb("be was been", "sein ist gewesen", Kind.GOODS, stative=True, with_sein=True)
HAVE = Verb("have had had", "haben hat gehabt", _P, Kind.GOODS | Kind.ANIMAL, stative=True)
LIE = Verb("lie lay lain", "liegen liegt gelegen", Kind.TEXT | Kind.CLOTHES)
PUT = Verb("put put put", "legen legt gelegt", _P, Kind.TEXT | Kind.CLOTHES)
RAIN = Verb("rain rained rained", "regnen regnet geregnet", Kind.NOTHING)
SNOW = Verb("snow snowed snowed", "schneien schneit geschneit", Kind.NOTHING)
COST = Verb("cost cost cost", "kosten kostet gekostet", Kind.GOODS, stative=True)
LEAVE = Verb("leave left left", "fahren fährt abgefahren", _P | Kind.TRANSPORT, prefix="ab", with_sein=True)
ARRIVE = Verb("arrive arrived arrived", "kommen kommt angekommen", _P | Kind.TRANSPORT, prefix="an", with_sein=True)

_WITH_OBJECT = (
    Verb("buy bought bought", "kaufen kauft gekauft", _P, Kind.GOODS, place="at"),
    Verb("sell sold sold", "verkaufen verkauft verkauft", _P, Kind.GOODS, place="at"),
    Verb("need needed needed", "brauchen braucht gebraucht", _P, Kind.GOODS, stative=True),
    Verb("find found found", "finden findet gefunden", _P, _SMALL | Kind.ANIMAL, place="at"),
    Verb("lose lost lost", "verlieren verliert verloren", _P, _SMALL, place="at"),
    Verb("look looked looked", "suchen sucht gesucht", _P, _SMALL | Kind.ANIMAL, linker="for", place="at"),
    Verb("order ordered ordered", "bestellen bestellt bestellt", _P, Kind.EDIBLE | Kind.DRINK, place="at"),
    Verb("steal stole stolen", "stehlen stiehlt gestohlen", _L, _SMALL | Kind.EDIBLE, place="at"),
    Verb("hide hid hidden", "verstecken versteckt versteckt", _P, _SMALL, place="at"),
    Verb("see saw seen", "sehen sieht gesehen", _L, _L | Kind.OBJECT | Kind.SPACE, stative=True),
    Verb("hear heard heard", "hören hört gehört", _L, _L | Kind.TRANSPORT, stative=True),
    Verb("watch watched watched", "beobachten beobachtet beobachtet", _L, _L),
    Verb("love loved loved", "lieben liebt geliebt", _P, _L, stative=True),
    Verb("like liked liked", "mögen mag gemocht", _P, _L | Kind.EDIBLE | Kind.DRINK | Kind.SPACE, stative=True),
    Verb("hate hated hated", "hassen hasst gehasst", _P, _L | Kind.EDIBLE, stative=True),
    Verb("know knew known", "kennen kennt gekannt", _P, _P | Kind.TEXT | Kind.SPACE, stative=True),
    Verb("visit visited visited", "besuchen besucht besucht", _P, _P | Kind.PLACE),
    Verb("meet met met", "treffen trifft getroffen", _P, _P, place="at"),
    Verb("greet greeted greeted", "grüßen grüßt gegrüßt", _P, _P),
    Verb("kiss kissed kissed", "küssen küsst geküsst", _P, _L),
    Verb("understand understood understood", "verstehen versteht verstanden", _P, _P | Kind.TEXT, stative=True),
    Verb("read read read", "lesen liest gelesen", _P, Kind.TEXT, place="at"),
    Verb("write wrote written", "schreiben schreibt geschrieben", _P, Kind.TEXT, place="at"),
    Verb("translate translated translated", "übersetzen übersetzt übersetzt", _P, Kind.TEXT),
    Verb("describe described described", "beschreiben beschreibt beschrieben", _P, _P | Kind.SPACE),
    Verb("eat ate eaten", "essen isst gegessen", _P, Kind.EDIBLE, place="at"),
    Verb("drink drank drunk", "trinken trinkt getrunken", _P, Kind.DRINK, place="at"),
    Verb("cook cooked cooked", "kochen kocht gekocht", _P, Kind.DISH, place="at"),
    Verb("bake baked baked", "backen backt gebacken", _P, Kind.BAKED, place="at"),
    Verb("cut cut cut", "schneiden schneidet geschnitten", _P, Kind.FOOD | Kind.BAKED),
    Verb("carry carried carried", "tragen trägt getragen", _P, Kind.THING | Kind.FURNITURE),
    Verb("wear wore worn", "tragen trägt getragen", _P, Kind.CLOTHES),
    Verb("wash washed washed", "waschen wäscht gewaschen", _P, Kind.CLOTHES | Kind.CAR, place="at"),
    Verb("repair repaired repaired", "reparieren repariert repariert", _P, Kind.VEHICLE | Kind.DEVICE, place="at"),
    Verb("clean cleaned cleaned", "putzen putzt geputzt", _P, Kind.ROOM | Kind.FURNITURE | Kind.OPENING),
    Verb("paint painted painted", "malen malt gemalt", _P, _L | Kind.BUILDING, place="at"),
    Verb("draw drew drawn", "zeichnen zeichnet gezeichnet", _P, _L | Kind.BUILDING, place="at"),
    Verb("build built built", "bauen baut gebaut", _P, Kind.BUILDING | Kind.FURNITURE),
    Verb("push pushed pushed", "schieben schiebt geschoben", _P, Kind.CAR),
    Verb("forget forgot forgotten", "vergessen vergisst vergessen", _P, _SMALL, stative=True),
    Verb("catch caught caught", "fangen fängt gefangen", _L, Kind.ANIMAL),
    Verb("feed fed fed", "füttern füttert gefüttert", _P, Kind.ANIMAL, place="at"),
)
_SEPARABLE = (
    Verb("open opened opened", "machen macht aufgemacht", _P, Kind.OPENING, prefix="auf"),
    Verb("close closed closed", "machen macht zugemacht", _P, Kind.OPENING, prefix="zu"),
    Verb("call called called", "rufen ruft angerufen", _P, _P, prefix="an"),
    Verb("invite invited invited", "laden lädt eingeladen", _P, _P, prefix="ein"),
    Verb("pick picked picked", "holen holt abgeholt", _P, _P, particle="up", prefix="ab", place="at"),
    Verb("put put put", "ziehen zieht angezogen", _P, Kind.CLOTHES, particle="on", prefix="an"),
    Verb("take took taken", "ziehen zieht ausgezogen", _P, Kind.CLOTHES, particle="off", prefix="aus"),
    Verb("try tried tried", "probieren probiert anprobiert", _P, Kind.CLOTHES, particle="on", prefix="an"),
    Verb("turn turned turned", "schalten schaltet eingeschaltet", _P, Kind.DEVICE, particle="on", prefix="ein"),
    Verb("turn turned turned", "schalten schaltet ausgeschaltet", _P, Kind.DEVICE, particle="off", prefix="aus"),
    Verb("throw threw thrown", "werfen wirft weggeworfen", _P, _SMALL, particle="away", prefix="weg"),
    Verb("bring brought brought", "bringen bringt zurückgebracht", _P, _SMALL, particle="back", prefix="zurück"),
    Verb("eat ate eaten", "essen isst aufgegessen", _P, Kind.EDIBLE, particle="up", prefix="auf"),
    Verb("tidy tidied tidied", "räumen räumt aufgeräumt", _P, Kind.ROOM, prefix="auf"),
    Verb("look looked looked", "sehen sieht angesehen", _P, _P | Kind.TEXT, linker="at", prefix="an"),
)
_DATIVE = (
    Verb("help helped helped", "helfen hilft geholfen", _P, _L, case=_DAT, place="at"),
    Verb("thank thanked thanked", "danken dankt gedankt", _P, _P, case=_DAT),
    Verb("follow followed followed", "folgen folgt gefolgt", _L, _L, case=_DAT, with_sein=True),
    Verb("answer answered answered", "antworten antwortet geantwortet", _P, _P, case=_DAT),
    Verb("congratulate congratulated congratulated", "gratulieren gratuliert gratuliert", _P, _P, case=_DAT),
    Verb("trust trusted trusted", "vertrauen vertraut vertraut", _L, _P, case=_DAT, stative=True),
    Verb("believe believed believed", "glauben glaubt geglaubt", _P, _P, case=_DAT, stative=True),
    Verb("listen listened listened", "hören hört zugehört", _L, _P, linker="to", prefix="zu", case=_DAT),
    Verb("belong belonged belonged", "gehören gehört gehört", Kind.OBJECT, _P, linker="to", case=_DAT, stative=True),
)
_WITH_PREPOSITION = (
    Verb(
        "wait waited waited",
        "warten wartet gewartet",
        _L,
        _P | Kind.TRANSPORT,
        linker="for",
        linker_de="auf",
        place="at",
    ),
    Verb("think thought thought", "denken denkt gedacht", _P, _L | Kind.EVENT, linker="of", linker_de="an"),
    Verb(
        "dream dreamt dreamt", "träumen träumt geträumt", _L, _L | Kind.EDIBLE, linker="of", linker_de="von", case=_DAT
    ),
    Verb(
        "talk talked talked", "sprechen spricht gesprochen", _P, _L, linker="to", linker_de="mit", case=_DAT, place="at"
    ),
    Verb(
        "play played played", "spielen spielt gespielt", _L, _L, linker="with", linker_de="mit", case=_DAT, place="at"
    ),
    Verb(
        "argue argued argued",
        "streiten streitet gestritten",
        _P,
        _P,
        linker="with",
        linker_de="mit",
        case=_DAT,
        place="at",
    ),
    Verb("laugh laughed laughed", "lachen lacht gelacht", _P, _L | Kind.TEXT, linker="at", linker_de="über"),
    Verb("take took taken", "kümmern kümmert gekümmert", _P, _L, "care", "of", linker_de="um", reflexive=True),
    Verb(
        "look looked looked", "freuen freut gefreut", _P, Kind.EVENT, "forward", "to", linker_de="auf", reflexive=True
    ),
    Verb("fall fell fallen", "verlieben verliebt verliebt", _P, _P, "in love", "with", linker_de="in", reflexive=True),
    Verb(
        "remember remembered remembered",
        "erinnern erinnert erinnert",
        _P,
        _L | Kind.SPACE | Kind.EVENT,
        linker_de="an",
        reflexive=True,
        stative=True,
    ),
    Verb(
        "complain complained complained",
        "beschweren beschwert beschwert",
        _P,
        _P | Kind.DISH,
        linker="about",
        linker_de="über",
        reflexive=True,
    ),
)
_WITH_RECIPIENT = (
    Verb("give gave given", "geben gibt gegeben", _P, Kind.GOODS, recipients=_P),
    Verb("show showed shown", "zeigen zeigt gezeigt", _P, Kind.OBJECT | Kind.ANIMAL | Kind.SPACE, recipients=_P),
    Verb("send sent sent", "schicken schickt geschickt", _P, Kind.TEXT | Kind.THING, recipients=_P),
    Verb("bring brought brought", "bringen bringt gebracht", _P, Kind.EDIBLE | Kind.DRINK | Kind.THING, recipients=_P),
    Verb("lend lent lent", "leihen leiht geliehen", _P, _SMALL | Kind.CAR, recipients=_P),
    Verb("offer offered offered", "bieten bietet angeboten", _P, Kind.EDIBLE | Kind.DRINK, prefix="an", recipients=_P),
    Verb("explain explained explained", "erklären erklärt erklärt", _P, Kind.TEXT, recipients=_P, recipient_last=True),
    Verb(
        "recommend recommended recommended",
        "empfehlen empfiehlt empfohlen",
        _P,
        Kind.TEXT | Kind.DISH,
        recipients=_P,
        recipient_last=True,
    ),
    Verb(
        "introduce introduced introduced",
        "stellen stellt vorgestellt",
        _P,
        _P,
        prefix="vor",
        recipients=_P,
        recipient_last=True,
    ),
)
_WITHOUT_OBJECT = (
    Verb("sleep slept slept", "schlafen schläft geschlafen", _L, place="at", manner="well"),
    Verb("work worked worked", "arbeiten arbeitet gearbeitet", _P, place="at", manner="fast"),
    Verb("dance danced danced", "tanzen tanzt getanzt", _P, place="at", manner="well"),
    Verb("sing sang sung", "singen singt gesungen", _P, place="at", manner="loud"),
    Verb("laugh laughed laughed", "lachen lacht gelacht", _P, place="at", manner="loud"),
    Verb("cry cried cried", "weinen weint geweint", _P, place="at", manner="loud"),
    Verb("cook cooked cooked", "kochen kocht gekocht", _P, place="at", manner="well"),
    Verb("wait waited waited", "warten wartet gewartet", _L, place="at"),
    Verb("play played played", "spielen spielt gespielt", _L, place="at", manner="loud"),
    Verb("sneeze sneezed sneezed", "niesen niest geniest", _L, manner="loud"),
    Verb("whisper whispered whispered", "flüstern flüstert geflüstert", _P, place="at"),
    Verb("pray prayed prayed", "beten betet gebetet", _P, place="at"),
    Verb("snore snored snored", "schnarchen schnarcht geschnarcht", _L, manner="loud"),
    Verb("smile smiled smiled", "lächeln lächelt gelächelt", _P),
    Verb("shout shouted shouted", "schreien schreit geschrien", _P, place="at"),
    Verb("hike hiked hiked", "wandern wandert gewandert", _P, with_sein=True, place="at"),
    Verb("swim swam swum", "schwimmen schwimmt geschwommen", _L, with_sein=True, manner="fast"),
    Verb("run ran run", "rennen rennt gerannt", _L, with_sein=True, manner="fast", place="to!"),
    Verb("rest rested rested", "ruhen ruht ausgeruht", _L, prefix="aus", reflexive=True, place="at"),
    Verb("hurry hurried hurried", "beeilen beeilt beeilt", _P, reflexive=True),
    Verb("live lived lived", "wohnen wohnt gewohnt", _P, place="at!", stative=True),
    Verb("stay stayed stayed", "bleiben bleibt geblieben", _L, with_sein=True, place="at!"),
    Verb("sit sat sat", "sitzen sitzt gesessen", _L, place="spot!"),
    Verb("stand stood stood", "stehen steht gestanden", _L, place="spot!"),
    Verb("go went gone", "gehen geht gegangen", _P, with_sein=True, place="to!"),
    Verb("travel travelled travelled", "reisen reist gereist", _P, with_sein=True, place="far!", manner="travel"),
    Verb("come came come", "kommen kommt gekommen", _P, with_sein=True, place="to!", manner="travel"),
    Verb("return returned returned", "kehren kehrt zurückgekehrt", _P, prefix="zurück", with_sein=True, place="to!"),
    Verb("move moved moved", "ziehen zieht umgezogen", _P, prefix="um", with_sein=True, place="far!"),
    Verb("get got got", "stehen steht aufgestanden", _P, particle="up", prefix="auf", with_sein=True),
    Verb("wake woke woken", "wachen wacht aufgewacht", _L, particle="up", prefix="auf", with_sein=True),
    Verb("fall fell fallen", "schlafen schläft eingeschlafen", _L, particle="asleep", prefix="ein", with_sein=True),
    Verb("come came come", "kommen kommt zurückgekommen", _L, particle="back", prefix="zurück", with_sein=True),
    Verb("go went gone", "gehen geht ausgegangen", _P, particle="out", prefix="aus", with_sein=True),
    Verb("watch watched watched", "sehen sieht ferngesehen", _P, particle="television", prefix="fern", place="at"),
    Verb("go went gone", "kaufen kauft eingekauft", _P, particle="shopping", prefix="ein", place="at"),
    LEAVE,
    ARRIVE,
)
VERBS: tuple[Verb, ...] = (
    HAVE,
    *_WITH_OBJECT,
    *_SEPARABLE,
    *_DATIVE,
    *_WITH_PREPOSITION,
    *_WITH_RECIPIENT,
    *_WITHOUT_OBJECT,
)

# What people do, and verbs whose object stands without a preposition in German.
ACTIONS = tuple(verb for verb in VERBS if verb.subjects & Kind.PERSON and not verb.stative)
DIRECT = tuple(verb for verb in VERBS if verb.objects and not verb.linker_de and not verb.recipients)

# Verbs with a clause: that (dass), whether and question words (ob, wo, …), to (zu).
KNOW = Verb("know knew known", "wissen weiß gewusst", _P, stative=True)
SAYING = (
    Verb("think thought thought", "denken denkt gedacht", _P, stative=True),
    Verb("believe believed believed", "glauben glaubt geglaubt", _P, stative=True),
    Verb("say said said", "sagen sagt gesagt", _P),
    Verb("hope hoped hoped", "hoffen hofft gehofft", _P, stative=True),
    Verb("hear heard heard", "hören hört gehört", _P, stative=True),
    KNOW,
)
ASKING = (
    Verb("ask asked asked", "fragen fragt gefragt", _P),
    Verb("wonder wondered wondered", "fragen fragt gefragt", _P, reflexive=True),
    Verb("forget forgot forgotten", "vergessen vergisst vergessen", _P, stative=True),
    KNOW,
)
TRYING = (
    Verb("try tried tried", "versuchen versucht versucht", _P),
    Verb("begin began begun", "fangen fängt angefangen", _P, prefix="an"),
    Verb("hope hoped hoped", "hoffen hofft gehofft", _P, stative=True),
    Verb("forget forgot forgotten", "vergessen vergisst vergessen", _P, stative=True),
    Verb("promise promised promised", "versprechen verspricht versprochen", _P),
    Verb("decide decided decided", "beschließen beschließt beschlossen", _P),
    Verb("plan planned planned", "planen plant geplant", _P),
)
