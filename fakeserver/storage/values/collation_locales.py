"""Languages whose letters have an order of their own, and the names of all locales."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Tailoring(NamedTuple):
    """The peculiarities of a language.

    `letters` holds chains such as `c č ć`: after the first letter of each come the others, as letters of
    their own. `equals` are letters that stand for another. `script` (code points) comes before Latin.
    `defaults` are options that hold unless a collation states them.
    """

    letters: str = ""
    equals: tuple[tuple[str, str], ...] = ()
    script: tuple[int, int] = (0, 0)
    defaults: tuple[tuple[str, Any], ...] = ()


_CYRILLIC: Final = (0x400, 0x530)
_UPPER_FIRST: Final = (("caseFirst", "upper"),)
_SWEDISH: Final = Tailoring("z å ä ö", (("æ", "ä"), ("ø", "ö")))
_NORWEGIAN: Final = Tailoring("z æ ø å", (("ä", "æ"), ("ö", "ø"), ("aa", "å")))
_CROATIAN: Final = Tailoring("c č ć, d dž đ, l lj, n nj, s š, z ž")

TAILORED: Final[dict[str, Tailoring]] = {
    "bg": Tailoring(script=_CYRILLIC),
    "bs": _CROATIAN,
    "cs": Tailoring("c č, h ch, r ř, s š, z ž"),
    "da": _NORWEGIAN._replace(defaults=_UPPER_FIRST),
    "de@collation=phonebook": Tailoring(equals=(("ä", "ae"), ("ö", "oe"), ("ü", "ue"))),
    "el": Tailoring(script=(0x370, 0x400)),
    "es": Tailoring("n ñ"),
    "es@collation=traditional": Tailoring("c ch, l ll, n ñ"),
    "fi": _SWEDISH,
    "fr_CA": Tailoring(defaults=(("backwards", True),)),
    "he": Tailoring(script=(0x590, 0x600)),
    "hr": _CROATIAN,
    "hu": Tailoring("c cs, d dz dzs, g gy, l ly, n ny, o ö, s sz, t ty, u ü, z zs", (("ő", "ö"), ("ű", "ü"))),
    "lt": Tailoring("c č, s š, z ž"),
    "lv": Tailoring("c č, g ģ, k ķ, l ļ, n ņ, r ŗ, s š, z ž"),
    "nb": _NORWEGIAN,
    "nn": _NORWEGIAN,
    "pl": Tailoring("a ą, c ć, e ę, l ł, n ń, o ó, s ś, z ź ż"),
    "ro": Tailoring("a ă â, i î, s ș, t ț", (("ş", "ș"), ("ţ", "ț"))),
    "ru": Tailoring(script=_CYRILLIC),
    "sk": Tailoring("a ä, c č, h ch, o ô, s š, z ž"),
    "sl": Tailoring("c č ć, d đ, s š, z ž"),
    "sr_Latn": _CROATIAN,
    "sv": _SWEDISH,
}
"""The locales with an order of their own that is known here, from the public collation charts."""

PLAIN: Final = frozenset({
    "af", "ca", "chr", "de", "en", "fr", "ga", "gl", "haw", "id", "it", "lb", "ln", "ms", "nl", "om", "pt",
    "sw", "zu",
})  # fmt: skip
"""The languages whose order is everybody's."""

UNKNOWN_LETTERS: Final = frozenset({
    "az", "cy", "dsb", "ee", "eo", "et", "fil", "fo", "ha", "hsb", "ig", "is", "kl", "lk", "mt", "se", "smn",
    "sq", "to", "tr", "vi", "wae", "yo",
})  # fmt: skip
"""Languages in Latin letters that a server knows, and whose order of those is not known here."""

UNKNOWN_SCRIPT: Final = frozenset({
    "am", "ar", "as", "be", "bn", "bo", "dz", "fa", "gu", "hi", "hy", "ja", "ka", "kk", "km", "kn", "ko",
    "kok", "ky", "lo", "mk", "ml", "mn", "mr", "my", "ne", "or", "pa", "ps", "si", "sr", "ta", "te", "th",
    "ug", "uk", "ur", "yi", "zh",
})  # fmt: skip
"""Languages in another script that a server knows: their order of Latin letters is everybody's."""
