"""A veterinary clinic's FAQ, in a trade of which no data set here is, with questions as its clients type them.

All were written before any search was asked. `QUESTIONS` name the row that answers, by its number; no row answers
`OTHER_MATTERS`, though some are near.
"""

from __future__ import annotations

import csv
from pathlib import Path

ENTRIES = [
    ("What are your opening hours?", "We are open Monday to Friday from 8 am to 7 pm and Saturday from 9 am to 1 pm."),
    ("Do I need an appointment?", "Yes, please book by telephone or on our website. Emergencies are seen at once."),
    ("What do I do in an emergency at night?", "Call 555 0199. A vet of ours is on duty for emergencies all night."),
    ("Where can I park?", "There are eight free spaces behind the clinic; the entrance is in Mill Lane."),
    ("How do I register my pet?", "Fill in the form at the front desk or online, and bring earlier medical records."),
    ("Which animals do you treat?", "Dogs, cats, rabbits, guinea pigs, hamsters and birds. We do not treat reptiles."),
    ("When should a puppy get its first vaccination?", "At eight weeks, again at twelve weeks, then once a year."),
    ("Which vaccinations does a cat need?", "Cat flu and panleukopenia every year; leukaemia if it goes outdoors."),
    ("Does an indoor cat need to be vaccinated?", "Yes, you can carry germs indoors on your shoes and clothes."),
    ("Do rabbits need vaccinations?", "Yes, against myxomatosis and viral haemorrhagic disease, once a year."),
    ("What does a vaccination cost?", "45 for a cat and 52 for a dog, with a short health check."),
    ("What does a consultation cost?", "A first consultation is 48; a check-up of the same complaint is 30."),
    ("How can I pay?", "By card or in cash after each visit. We do not send invoices."),
    ("Can I pay in instalments?", "For treatment above 300, in up to six monthly parts, through a finance partner."),
    ("Do you work with pet insurers?", "We bill most insurers directly if you sign a form before the treatment."),
    (
        "How does neutering a cat work?",
        "The cat comes fasted at 8 am, is operated on in the morning, and goes home at 4.",
    ),
    ("At what age can a dog be neutered?", "Small breeds from seven months on, large ones when they are fully grown."),
    ("What does it cost to spay a female dog?", "Between 280 and 420, depending on her weight."),
    ("Must my pet fast before an anaesthetic?", "No food for eight hours before; water is allowed until the morning."),
    ("Rabbits before an operation", "Rabbits and guinea pigs must not fast. Bring their usual food."),
    (
        "How dangerous is an anaesthetic?",
        "In healthy animals, fewer than one in a thousand dies. A blood test lowers it.",
    ),
    (
        "How do I care for the wound after an operation?",
        "Keep it dry, and let the animal wear the collar for ten days.",
    ),
    ("When are stitches taken out?", "After ten to twelve days. That visit is free."),
    ("My dog ate chocolate", "Call us at once with the dog's weight and the amount; dark chocolate is poisonous."),
    ("My cat does not eat", "A cat that has eaten nothing for a day should be seen, as its liver can be harmed."),
    (
        "My dog vomits",
        "Give no food for twelve hours, but water. Come if there is blood or if it lasts longer than a day.",
    ),
    ("What helps with diarrhoea?", "Boiled rice with chicken for two days. A puppy should be seen the same day."),
    ("How do I remove a tick?", "With tweezers close to the skin, pulled slowly. Use neither oil nor glue."),
    (
        "How do I get rid of fleas?",
        "Treat all animals of the household on one day, and wash their bedding at 60 degrees.",
    ),
    ("How often should I worm my cat?", "Four times a year outdoors, once or twice a year indoors."),
    ("My rabbit's teeth are too long", "We shorten them with a dental drill, mostly without an anaesthetic."),
    (
        "How are a dog's teeth cleaned?",
        "Under a short anaesthetic, with ultrasound; the scale is removed and the teeth polished.",
    ),
    ("Why does my dog smell from its mouth?", "Mostly it is scale and inflamed gums. Have the teeth looked at."),
    ("My guinea pig scratches itself", "It is probably mites. Two injections, two weeks apart, cure it."),
    ("Do you clip claws?", "Yes, without an appointment on Saturdays, for 12."),
    (
        "What is a microchip?",
        "A grain of rice under the skin with a number, by which a lost animal is recognized. It costs 35.",
    ),
    ("How do I get a pet passport?", "We issue it if the animal has a chip and a rabies vaccination. It costs 25."),
    ("When must the rabies jab be given before travelling?", "At least 21 days before you cross a border."),
    ("Do you make house calls?", "Yes, within ten miles, on Wednesday afternoons, for 60 more."),
    (
        "Can I be there when my pet is put to sleep?",
        "Of course, and for as long as you like. We also come to your home.",
    ),
    ("What happens to a dead animal?", "We arrange a cremation, alone or with others, or you take it home."),
    ("Do you have an X-ray machine?", "Yes, digital X-rays and ultrasound are in house; we refer for CT and MRI."),
    ("How long do blood results take?", "Basic values take 20 minutes, those from the laboratory two days."),
    (
        "Can I get a repeat prescription?",
        "By telephone, if we have seen the animal within six months. It is ready next day.",
    ),
    ("Do you sell food?", "We keep diets for kidneys, weight and allergies, and order others within two days."),
    ("My cat is too fat", "Our nurse weighs it every month for free, and works out a diet with you."),
    (
        "How do I give my cat a tablet?",
        "Hide it in a paste, or put it far back on the tongue and hold the mouth closed.",
    ),
    (
        "How do I take a stressed cat to the clinic?",
        "Leave the carrier open at home for days, and cover it on the way.",
    ),
    ("Can my dog stay overnight after surgery?", "Yes, a nurse watches over the ward until 10 pm and from 6 am."),
    ("How do I cancel an appointment?", "Call us a day before; later we charge 20."),
]

QUESTIONS = [
    ("are you open on saturday morning", 0),
    ("it's 3 am and my dog can't breathe, who do I call??", 2),
    ("is there anywhere to leave the car", 3),
    ("do you see parrots", 5),
    ("puppy is 7 weeks, when does she get her jabs", 6),
    ("my cat never goes out, is the jab really necessary", 8),
    ("how much is a cat jab", 10),
    ("can i split the bill over a few months", 13),
    ("will you claim from my insurance or do I pay first", 14),
    ("how old does a labrador have to be for castration", 16),
    ("can he have breakfast on the day of the operation", 18),
    ("stitches out when", 22),
    ("she got into a box of pralines", 23),
    ("cat hasnt touched her food since yesterday", 24),
    ("there is a tick stuck on his ear how do i get it off", 27),
    ("we have fleas everywhere", 28),
    ("taking the dog to France, how long before do we need the rabies shot", 37),
    ("would you come to my house, the cat hates the car", 38),
    ("i want to stay with him until the end", 39),
    ("need more of her thyroid tablets, do I have to come in", 43),
]

WORDINGS = {
    0: ["when do you close", "are you there at lunch time on Thursdays"],
    1: ["can we just walk in", "how do I book a visit"],
    2: ["emergency number", "my cat was run over, it is Sunday evening"],
    4: ["we just moved here, how do we become clients"],
    5: ["do you treat snakes", "can I bring a hamster"],
    6: ["puppy shots", "first injections for an 8 week old spaniel"],
    7: ["what jabs for a kitten"],
    10: ["price of the yearly booster"],
    11: ["how expensive is it just to have him looked at"],
    12: ["do you take cards"],
    14: ["is it covered by my insurance"],
    15: ["castration of a tomcat, what happens on the day"],
    17: ["how much to have my bitch done"],
    18: ["no breakfast before surgery?"],
    21: ["she keeps licking the cut", "how long must he wear the cone"],
    23: ["dog and cocoa powder", "he stole a bar of dark chocolate"],
    25: ["he threw up three times this morning"],
    26: ["runny poo"],
    28: ["little black jumping things in the fur"],
    29: ["worming tablets how often"],
    31: ["tartar removal"],
    34: ["nails too long", "can you cut her claws"],
    36: ["papers for travelling to Spain with a dog"],
    39: ["putting an old dog to sleep"],
    43: ["she has run out of her pills"],
    46: ["he spits every pill out"],
    49: ["can't make it tomorrow"],
}
"""How clients ask for some rows, as the front desk knows it; none is like one of `QUESTIONS`."""

OTHER_MATTERS = [
    "can my cat board with you while we are on holiday",
    "how do I train my dog not to pull on the lead",
    "do you have kittens for sale",
    "best fish tank filter for guppies",
    "I would like to work for you as a receptionist",
    "what is the capital of Portugal",
    "my own back hurts since Sunday, which doctor is good",
    "asdf lkj",
]


def write_clinic(path: Path, *, wordings: bool = False) -> None:
    """The clinic's table, with or without its wordings."""
    known = WORDINGS if wordings else {}
    rows = [(*entry, "\n".join(known.get(row, ()))) for row, entry in enumerate(ENTRIES)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer", "wordings"), *rows])
