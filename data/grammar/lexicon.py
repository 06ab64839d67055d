"""The open classes: nouns, adjectives, verbs, and the phrases that say when, how and where.

Each entry pairs one English word with one German word, in a notation close to a dictionary's.
"""

from __future__ import annotations

from collections.abc import Iterator

from data.grammar.words import Adjective, Case, Kind, Noun, Phrase, Preposition

# --- Nouns -----------------------------------------------------------------------------------------------------------


def _nouns(kind: Kind, table: str, at: tuple[str, str] | None = None) -> Iterator[Noun]:
    """Entries "boy boys der Junge Jungen weak", separated by semicolons; "-" where there is no plural."""
    for entry in table.split(";"):
        en, en_plural, article, de, de_plural, *weak = entry.split()
        gender = {"der": "m", "die": "f", "das": "n"}[article]
        where = Preposition(*at, Case.DAT) if at else None
        yield Noun(en, en_plural, gender, de, de_plural, kind, bool(weak), where)


NOUNS: tuple[Noun, ...] = (
    *_nouns(
        Kind.PERSON,
        """man men der Mann Männer; boy boys der Junge Jungen weak; teacher teachers der Lehrer Lehrer;
        doctor doctors der Arzt Ärzte; friend friends der Freund Freunde; brother brothers der Bruder Brüder;
        father fathers der Vater Väter; uncle uncles der Onkel Onkel; grandfather grandfathers der Großvater Großväter;
        neighbour neighbours der Nachbar Nachbarn weak; student students der Student Studenten weak;
        farmer farmers der Bauer Bauern weak; cook cooks der Koch Köche; king kings der König Könige;
        guest guests der Gast Gäste; colleague colleagues der Kollege Kollegen weak; baker bakers der Bäcker Bäcker;
        lawyer lawyers der Anwalt Anwälte; son sons der Sohn Söhne; prince princes der Prinz Prinzen weak;
        policeman policemen der Polizist Polizisten weak; musician musicians der Musiker Musiker;
        customer customers der Kunde Kunden weak; painter painters der Maler Maler; woman women die Frau Frauen;
        sister sisters die Schwester Schwestern; mother mothers die Mutter Mütter; aunt aunts die Tante Tanten;
        grandmother grandmothers die Großmutter Großmütter; queen queens die Königin Königinnen;
        daughter daughters die Tochter Töchter; waitress waitresses die Kellnerin Kellnerinnen;
        actress actresses die Schauspielerin Schauspielerinnen; witch witches die Hexe Hexen;
        nurse nurses die Krankenschwester Krankenschwestern; child children das Kind Kinder;
        girl girls das Mädchen Mädchen""",
    ),
    *_nouns(
        Kind.ANIMAL,
        """dog dogs der Hund Hunde; bird birds der Vogel Vögel; bear bears der Bär Bären weak;
        lion lions der Löwe Löwen weak; monkey monkeys der Affe Affen weak; fox foxes der Fuchs Füchse;
        elephant elephants der Elefant Elefanten weak; wolf wolves der Wolf Wölfe; rabbit rabbits der Hase Hasen weak;
        frog frogs der Frosch Frösche; cat cats die Katze Katzen; cow cows die Kuh Kühe; mouse mice die Maus Mäuse;
        goat goats die Ziege Ziegen; duck ducks die Ente Enten; horse horses das Pferd Pferde;
        pig pigs das Schwein Schweine""",
    ),
    *_nouns(
        Kind.FOOD,
        """apple apples der Apfel Äpfel; pear pears die Birne Birnen; banana bananas die Banane Bananen;
        orange oranges die Orange Orangen; tomato tomatoes die Tomate Tomaten; salad salads der Salat Salate;
        cheese - der Käse -; butter - die Butter -; honey - der Honig -""",
    ),
    *_nouns(
        Kind.DISH,
        """soup soups die Suppe Suppen; sausage sausages die Wurst Würste; potato potatoes die Kartoffel Kartoffeln;
        egg eggs das Ei Eier; carrot carrots die Karotte Karotten; dumpling dumplings der Knödel Knödel;
        rice - der Reis -""",
    ),
    *_nouns(
        Kind.BAKED,
        """cake cakes der Kuchen Kuchen; roll rolls das Brötchen Brötchen; biscuit biscuits der Keks Kekse;
        pizza pizzas die Pizza Pizzas; bread - das Brot -""",
    ),
    *_nouns(
        Kind.DRINK,
        """coffee - der Kaffee -; tea - der Tee -; milk - die Milch -; water - das Wasser -; juice - der Saft -;
        beer - das Bier -; wine - der Wein -; lemonade - die Limonade -""",
    ),
    *_nouns(
        Kind.TEXT,
        """book books das Buch Bücher; letter letters der Brief Briefe; newspaper newspapers die Zeitung Zeitungen;
        story stories die Geschichte Geschichten; poem poems das Gedicht Gedichte; article articles der Artikel Artikel;
        novel novels der Roman Romane; report reports der Bericht Berichte; message messages die Nachricht Nachrichten;
        postcard postcards die Postkarte Postkarten""",
    ),
    *_nouns(
        Kind.CLOTHES,
        """coat coats der Mantel Mäntel; hat hats der Hut Hüte; shirt shirts das Hemd Hemden;
        dress dresses das Kleid Kleider; shoe shoes der Schuh Schuhe; jacket jackets die Jacke Jacken;
        skirt skirts der Rock Röcke; scarf scarves der Schal Schals; glove gloves der Handschuh Handschuhe;
        sock socks die Socke Socken""",
    ),
    *_nouns(
        Kind.THING,
        """key keys der Schlüssel Schlüssel; umbrella umbrellas der Regenschirm Regenschirme; cup cups die Tasse Tassen;
        bag bags die Tasche Taschen; glass glasses das Glas Gläser; bottle bottles die Flasche Flaschen;
        knife knives das Messer Messer; spoon spoons der Löffel Löffel; fork forks die Gabel Gabeln;
        plate plates der Teller Teller; flower flowers die Blume Blumen; ball balls der Ball Bälle;
        picture pictures das Bild Bilder; map maps die Karte Karten; ticket tickets die Fahrkarte Fahrkarten;
        gift gifts das Geschenk Geschenke; ring rings der Ring Ringe; watch watches die Uhr Uhren;
        pencil pencils der Bleistift Bleistifte; candle candles die Kerze Kerzen; mirror mirrors der Spiegel Spiegel;
        doll dolls die Puppe Puppen; basket baskets der Korb Körbe""",
    ),
    *_nouns(
        Kind.DEVICE,
        """lamp lamps die Lampe Lampen; radio radios das Radio Radios; computer computers der Computer Computer;
        machine machines die Maschine Maschinen; printer printers der Drucker Drucker;
        heater heaters die Heizung Heizungen""",
    ),
    *_nouns(
        Kind.INSTRUMENT,
        """piano pianos das Klavier Klaviere; guitar guitars die Gitarre Gitarren; violin violins die Geige Geigen;
        flute flutes die Flöte Flöten; trumpet trumpets die Trompete Trompeten""",
    ),
    *_nouns(
        Kind.CAR,
        """car cars das Auto Autos; bicycle bicycles das Fahrrad Fahrräder; boat boats das Boot Boote;
        truck trucks der Lastwagen Lastwagen; tractor tractors der Traktor Traktoren""",
    ),
    *_nouns(
        Kind.TRANSPORT,
        """train trains der Zug Züge; bus buses der Bus Busse; ship ships das Schiff Schiffe;
        tram trams die Straßenbahn Straßenbahnen""",
    ),
    *_nouns(
        Kind.FURNITURE,
        """table tables der Tisch Tische; chair chairs der Stuhl Stühle; bed beds das Bett Betten;
        cupboard cupboards der Schrank Schränke; sofa sofas das Sofa Sofas; shelf shelves das Regal Regale;
        bench benches die Bank Bänke; armchair armchairs der Sessel Sessel""",
    ),
    *_nouns(
        Kind.OPENING,
        """window windows das Fenster Fenster; door doors die Tür Türen; box boxes die Kiste Kisten;
        suitcase suitcases der Koffer Koffer; gate gates das Tor Tore; drawer drawers die Schublade Schubladen""",
    ),
    *_nouns(
        Kind.PLACE | Kind.BUILDING,
        """house houses das Haus Häuser; library libraries die Bibliothek Bibliotheken; hotel hotels das Hotel Hotels;
        hospital hospitals das Krankenhaus Krankenhäuser; castle castles das Schloss Schlösser;
        museum museums das Museum Museen; theatre theatres das Theater Theater; church churches die Kirche Kirchen;
        restaurant restaurants das Restaurant Restaurants""",
        at=("in", "in"),
    ),
    *_nouns(
        Kind.PLACE | Kind.ROOM,
        """kitchen kitchens die Küche Küchen; room rooms das Zimmer Zimmer; cellar cellars der Keller Keller;
        office offices das Büro Büros; garage garages die Garage Garagen""",
        at=("in", "in"),
    ),
    *_nouns(
        Kind.PLACE,
        """garden gardens der Garten Gärten; city cities die Stadt Städte; village villages das Dorf Dörfer;
        park parks der Park Parks; forest forests der Wald Wälder; shop shops der Laden Läden""",
        at=("in", "in"),
    ),
    *_nouns(Kind.PLACE, "market markets der Markt Märkte", at=("at", "auf")),
    *_nouns(Kind.PLACE | Kind.BUILDING, "school schools die Schule Schulen", at=("at", "in")),
    *_nouns(Kind.PLACE | Kind.BUILDING, "station stations der Bahnhof Bahnhöfe", at=("at", "an")),
    *_nouns(
        Kind.PLACE,
        "island islands die Insel Inseln; farm farms der Bauernhof Bauernhöfe; mountain mountains der Berg Berge",
        at=("on", "auf"),
    ),
    *_nouns(Kind.PLACE | Kind.BUILDING, "bridge bridges die Brücke Brücken", at=("on", "auf")),
    *_nouns(Kind.PLACE, "beach beaches der Strand Strände", at=("on", "an")),
    *_nouns(Kind.PLACE, "river rivers der Fluss Flüsse; lake lakes der See Seen", at=("by", "an")),
    *_nouns(
        Kind.EVENT,
        """concert concerts das Konzert Konzerte; exam exams die Prüfung Prüfungen; film films der Film Filme;
        wedding weddings die Hochzeit Hochzeiten; journey journeys die Reise Reisen; game games das Spiel Spiele;
        meeting meetings die Besprechung Besprechungen; storm storms der Sturm Stürme;
        meal meals das Essen Essen""",
    ),
)


# --- Adjectives ------------------------------------------------------------------------------------------------------


def _adjectives(kinds: Kind, table: str) -> Iterator[Adjective]:
    """Entries "old alt älter", separated by semicolons; dark dunkel/dunkl dunkler, where the stem differs."""
    for entry in table.split(";"):
        en, de, *comparative = entry.split()
        de, _, stem = de.partition("/")
        yield Adjective(en, de, stem or de, kinds, Phrase(_comparative(en), comparative[0]) if comparative else None)


def _comparative(en: str) -> str:
    irregular = {"good": "better", "bad": "worse", "big": "bigger", "hot": "hotter"}
    if en in irregular:
        return irregular[en]
    if len(en) > 8:
        return f"more {en}"
    if en.endswith("y"):
        return en[:-1] + "ier"
    return en + ("r" if en.endswith("e") else "er")


_OBJECT = Kind.OBJECT | Kind.OPENING
ADJECTIVES: tuple[Adjective, ...] = (
    *_adjectives(
        Kind.LIVING | Kind.SPACE | Kind.VEHICLE | _OBJECT,
        "old alt älter; beautiful schön schöner; ugly hässlich hässlicher; big groß größer; small klein kleiner",
    ),
    *_adjectives(Kind.PERSON | Kind.GOODS | Kind.VEHICLE | Kind.EVENT, "good gut besser; bad schlecht schlechter"),
    *_adjectives(
        Kind.PERSON,
        """happy glücklich; sad traurig; friendly freundlich; rich reich reicher; poor arm ärmer; famous berühmt;
        clever klug klüger; lazy faul fauler; polite höflich; nervous nervös; honest ehrlich; proud stolz""",
    ),
    *_adjectives(
        Kind.LIVING,
        """young jung jünger; tired müde/müd; hungry hungrig; thirsty durstig; sick krank; healthy gesund;
        brave mutig; strong stark stärker; curious neugierig; angry wütend; dangerous gefährlich gefährlicher""",
    ),
    *_adjectives(Kind.EDIBLE | Kind.DRINK, "fresh frisch; sweet süß süßer; delicious lecker; cold kalt kälter"),
    *_adjectives(Kind.DISH | Kind.DRINK, "hot heiß heißer"),
    *_adjectives(
        _OBJECT | Kind.VEHICLE | Kind.BUILDING, "new neu neuer; expensive teuer/teur teurer; cheap billig billiger"
    ),
    *_adjectives(_OBJECT, "heavy schwer schwerer; light leicht leichter"),
    *_adjectives(Kind.VEHICLE | Kind.DEVICE | Kind.FURNITURE | Kind.OPENING, "modern modern; broken kaputt"),
    *_adjectives(Kind.CLOTHES | Kind.ROOM | Kind.VEHICLE | Kind.OPENING, "dirty schmutzig; clean sauber sauberer"),
    *_adjectives(Kind.CLOTHES | Kind.ROOM, "warm warm wärmer"),
    *_adjectives(Kind.ROOM, "dark dunkel/dunkl dunkler; bright hell heller"),
    *_adjectives(
        Kind.TEXT | Kind.EVENT,
        """interesting interessant interessanter; important wichtig wichtiger; boring langweilig; funny lustig;
        exciting spannend; long lang länger; short kurz kürzer""",
    ),
    *_adjectives(Kind.PLACE, "quiet ruhig ruhiger"),
)
COLOURS: tuple[Adjective, ...] = tuple(
    _adjectives(
        Kind.CLOTHES | Kind.FURNITURE | Kind.VEHICLE | Kind.OPENING,
        "red rot; blue blau; green grün; yellow gelb; brown braun; black schwarz; white weiß; grey grau",
    )
)


# --- When, how and where ---------------------------------------------------------------------------------------------


def _phrases(table: str) -> tuple[Phrase, ...]:
    """Entries "today = heute", separated by semicolons."""
    pairs = (entry.split("=") for entry in table.split(";"))
    return tuple(Phrase(" ".join(en.split()), " ".join(de.split())) for en, de in pairs)


DAYS = _phrases(
    """on Monday = am Montag; on Tuesday = am Dienstag; on Wednesday = am Mittwoch; on Thursday = am Donnerstag;
    on Friday = am Freitag; on Saturday = am Samstag; on Sunday = am Sonntag"""
)
MONTHS = _phrases(
    """in January = im Januar; in February = im Februar; in March = im März; in April = im April; in May = im Mai;
    in June = im Juni; in July = im Juli; in August = im August; in September = im September;
    in October = im Oktober; in November = im November; in December = im Dezember;
    in spring = im Frühling; in summer = im Sommer; in autumn = im Herbst; in winter = im Winter"""
)
PAST_TIMES = _phrases(
    """yesterday = gestern; yesterday evening = gestern Abend; last week = letzte Woche; last month = letzten Monat;
    last year = letztes Jahr; the day before yesterday = vorgestern"""
)
PRESENT_TIMES = _phrases("now = jetzt; today = heute; this morning = heute Morgen; this evening = heute Abend")
HABITS = _phrases(
    """every day = jeden Tag; every morning = jeden Morgen; every evening = jeden Abend; every week = jede Woche;
    every month = jeden Monat; every year = jedes Jahr; in the morning = am Morgen; in the evening = am Abend"""
)
FUTURE_TIMES = _phrases(
    """tomorrow = morgen; tomorrow evening = morgen Abend; next week = nächste Woche; next month = nächsten Monat;
    next year = nächstes Jahr; the day after tomorrow = übermorgen; soon = bald"""
)
UNITS = _phrases(
    "hours = Stunden; days = Tagen; weeks = Wochen; months = Monaten; years = Jahren"  # after "vor" and "in"
)
ALWAYS = Phrase("always", "immer")
OFTEN = Phrase("often", "oft")
FREQUENCIES = (OFTEN, *_phrases("sometimes = manchmal; rarely = selten; never = nie"))
DEGREES = _phrases("very = sehr; too = zu; quite = ziemlich")
MANNERS = {
    "loud": _phrases("loudly = laut; quietly = leise"),
    "fast": _phrases("quickly = schnell; slowly = langsam"),
    "well": _phrases("well = gut; badly = schlecht"),
    "travel": _phrases(
        """by train = mit dem Zug; by car = mit dem Auto; by bicycle = mit dem Fahrrad; by bus = mit dem Bus;
        by ship = mit dem Schiff"""
    ),
}
FAR_LOCATIONS = _phrases(
    """in Berlin = in Berlin; in Munich = in München; in Vienna = in Wien; in Italy = in Italien;
    in Switzerland = in der Schweiz; in Germany = in Deutschland"""
)
LOCATIONS = (*FAR_LOCATIONS, *_phrases("at home = zu Hause; here = hier; there = dort"))
FAR_GOALS = _phrases(
    """to Berlin = nach Berlin; to Munich = nach München; to Vienna = nach Wien; to Italy = nach Italien;
    to Switzerland = in die Schweiz; to Germany = nach Deutschland"""
)
HOMEWARD = Phrase("home", "nach Hause")
