"""What every client of this suite is pointed at: LONGHAUL_CLIENTS_URL, a gateway with two workers and a real model, which run.py starts."""

import enum
import os
import unittest

import pydantic

URL = os.environ["LONGHAUL_CLIENTS_URL"]
MODEL = os.environ["LONGHAUL_CLIENTS_MODEL"]
KEY = "none"
QUESTION = [{"role": "user", "content": "What is the weather like in Paris?"}]
# Of more tokens than the models' contexts.
TOO_LONG = [{"role": "user", "content": "one two three " * 40000}]


class Sky(str, enum.Enum):
    CLEAR = "clear"
    CLOUDY = "cloudy"


class Weather(pydantic.BaseModel):
    """The weather in a city."""

    sky: Sky
    degrees: int = pydantic.Field(ge=-40, le=50)
    is_windy: bool


WEATHER_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER_TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather", "strict": True,
                                                 "parameters": WEATHER_PARAMETERS}}


def check_arguments(case: unittest.TestCase, arguments):
    """Those of WEATHER_TOOL."""
    case.assertEqual(set(arguments), {"city", "days"})
    case.assertIn(arguments["city"], ("Paris", "Rome"))
    case.assertIn(arguments["days"], range(1, 8))
