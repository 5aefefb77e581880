"""Exercises and quiz of lesson 00: two small ones, to learn how exercises work."""

import math

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value


def surprise(probability):
    """The surprise, in nats, at what had this probability: a number above 0, at most 1 → −ln p."""
    return -math.log(probability)


EVEN = Exercise(
    id="00.even",
    title="An even guess",
    stars=1,
    minutes=2,
    solution=value("answer = 1 / 63"),
    tolerance=1.5e-4,  # 0.016 is right, 1/62 and 1/64 are not
    misconceptions=(
        Misconception(
            "letters only",
            1 / 26,
            "That would be right if there were 26 characters. Our model also tells capitals from small "
            "letters and knows the space, the line break and nine punctuation marks. How many characters "
            "are in its vocabulary? The cell that loaded the model has printed it. (If you answered so "
            "because we asked you to: well done, this is what a check says about a wrong answer it knows.)",
        ),
        Misconception(
            "small letters and capitals only",
            1 / 52,
            "26 small letters and 26 capitals make 52, but the space, the line break and the punctuation "
            "are characters too. The cell that loaded the model has printed how many there are.",
        ),
        Misconception(
            "the other corpus",
            1 / 65,
            "65 is the vocabulary of the well-known “tiny Shakespeare”. The plays of this course were "
            "prepared anew and have two characters fewer, as the cell that loaded the model shows.",
        ),
        Misconception(
            "all but one",
            1 / 62,
            "You left one character out. All of them share, the one that really comes included.",
        ),
        Misconception(
            "rounded too far",
            0.02,
            "Right to two decimals, which for so small a number is one digit: 0.02 would be one of 50. "
            "Leave the rounding to Python and give `1 / 63` itself.",
        ),
        Misconception(
            "the number of characters",
            63.0,
            "63 is how many characters there are. A probability is a share of one whole: what does each "
            "get if 63 characters share 1 evenly?",
        ),
        Misconception(
            "in per cent",
            100 / 63,
            "The number is right in per cent. A probability lies between 0 and 1; divide by 100.",
        ),
        Misconception(
            "half and half",
            0.5,
            "A half would be right if there were two possibilities. “It comes or it does not” are two, but "
            "they are not equally likely: 63 characters are.",
        ),
        Misconception(
            "the surprise",
            math.log(63),
            "That is the surprise at what has this probability, and it comes next. Here the probability "
            "itself is asked for.",
        ),
    ),
    hints=(
        "All characters get the same probability, and together they get 1.",
        "How many characters are there? Look below the cell that loaded the model, or at "
        "`tokenizer.vocab_size`.",
    ),
    why="Probabilities sum to 1. If 63 characters share it evenly, each gets 1/63, about 0.016.",
)

SURPRISE = Exercise(
    id="00.surprise",
    title="From probability to surprise",
    stars=1,
    minutes=3,
    solution=surprise,
    cases=lambda: [(0.5,), (1 / 63,), (0.9,), (1e-6,), (1.0,)],
    misconceptions=(
        Misconception(
            "minus forgotten",
            lambda probability: math.log(probability),
            "The logarithm of a number below 1 is negative, and a cost should not be. Put a minus in front.",
        ),
        Misconception(
            "logarithm to base 10",
            lambda probability: -math.log10(probability),
            "This is the logarithm to base 10. We measure in nats, with the natural logarithm: `math.log`.",
        ),
        Misconception(
            "in bits",
            lambda probability: -math.log2(probability),
            "This is the surprise in bits, with the logarithm to base 2: a good unit, and lesson 01 uses it. "
            "Here we want nats, as PyTorch's losses are: `math.log` is the natural logarithm.",
        ),
        Misconception(
            "one minus p",
            lambda probability: 1 - probability,
            "1 − p is the probability of being wrong. It never exceeds 1, so that a guess of one in a "
            "million would cost hardly more than an even bet. Take the logarithm: −ln p.",
        ),
        Misconception(
            "one over p",
            lambda probability: 1 / probability,
            "1/p is how many equal possibilities there might be: for an even guess, 63. The surprise is the "
            "logarithm of that: ln(1/p), which is the same as −ln p.",
        ),
        Misconception(
            "one over p, less one",
            lambda probability: 1 / probability - 1,
            "These are the odds against it. The surprise is a logarithm: −ln p.",
        ),
        Misconception(
            "weighted by p",
            lambda probability: -probability * math.log(probability),
            "−p · ln p is the term that entropy is made of, a mean over everything that could come. Here we "
            "know what came: leave the factor p out.",
        ),
        Misconception(
            "exponential for logarithm",
            lambda probability: math.exp(-probability),
            "`math.exp` is the inverse of the logarithm. What is certain (p = 1) should cost 0, and "
            "here it costs 1/e. Use `math.log`.",
        ),
        Misconception(
            "the surprise at the contrary",
            lambda probability: -math.log(1 - probability),
            "This is the surprise at its *not* happening. It happened: −ln p, not −ln(1 − p).",
        ),
    ),
    hints=(
        "Python's natural logarithm is `math.log`. Try `math.log(0.5)` in a cell of its own: what is wrong "
        "with its sign?",
        "One line is enough: `return` followed by a minus and the logarithm of `probability`.",
    ),
    why="The natural logarithm of 1 is 0, so what was certain costs nothing; of smaller numbers it is "
    "negative, so the minus makes a cost of it. A product of probabilities becomes a sum of costs.",
)

EXERCISES = (EVEN, SURPRISE)

QUIZ = (
    Question(
        "In a heatmap of attention weights, the square in row “r” and column “␣” is dark. What does it say?",
        (
            Choice(
                "The head read much of the space when the model was at “r”.",
                True,
                "A row is the character that reads, a column the one that is read.",
            ),
            Choice(
                "The head read much of “r” when the model was at the space.",
                False,
                "That would be row “␣”, column “r”. Rows read, columns are read.",
            ),
            Choice(
                "The space is the reason for the model's next guess.",
                False,
                "Weights show where a head read, not why the model answered. Lesson 13 tests reasons, by "
                "switching heads off.",
            ),
        ),
    ),
    Question(
        "A model that knows nothing guesses evenly among 63 characters. What does each character cost it?",
        (
            Choice("0", False, "Only what was certain, with p = 1, costs nothing."),
            Choice(
                "63",
                False,
                "That is the number of possibilities; the cost is its logarithm.",
            ),
            Choice("1/63 ≈ 0.016", False, "That is the probability; its cost is −ln(1/63)."),
            Choice("ln 63 ≈ 4.14", True, "Each has p = 1/63, and −ln(1/63) = ln 63."),
        ),
    ),
    Question(
        "Which of these are true of exercises?",
        (
            Choice(
                "What passed is lost when you close the notebook.",
                False,
                "It is kept in work/answers, as plain Python, and `mine` gives it back.",
            ),
            Choice(
                "Who has looked at the solution can no longer pass.",
                False,
                "Type it yourself, understand it, and it passes like any other answer.",
            ),
            Choice(
                "After a wrong answer you can run the rest of the notebook all the same.",
                True,
                "`check` then hands back the course's own answer, so that every later cell works.",
            ),
            Choice(
                "Hints and solutions cost nothing.",
                True,
                "Hints are counted, so that you can see what was hard for you, and nothing more.",
            ),
        ),
    ),
    Question(
        "You changed cells here and there, and now one complains about a name that “is not defined”.",
        (
            Choice(
                "Delete your progress.",
                False,
                "Progress lies in a file of its own and has no part in this.",
            ),
            Choice(
                "Install the course anew.",
                False,
                "The cells that define the name have not been run since the kernel started; running them is "
                "enough.",
            ),
            Choice(
                "Restart the kernel and run all cells.",
                True,
                "The kernel remembers only what was run, in the order you ran it. A fresh start from the top "
                "clears up most riddles.",
            ),
        ),
    ),
)
