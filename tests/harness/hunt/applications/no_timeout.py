"""A page asks for its menu. PLANTED: it waits for the answer as long as that takes."""

import os
import sys

from pymongo import MongoClient
from pymongo.errors import PyMongoError

LIMIT = {} if "PLANTED" in os.environ else {"timeoutMS": 2000}

with MongoClient(os.environ["MONGODB_URI"], appname="page", **LIMIT) as client:
    try:
        client.site.menu.insert_one({"_id": 1, "name": "home"})
        print("menu:", [each["name"] for each in client.site.menu.find()])
    except PyMongoError as error:
        sys.exit(f"no menu: {error}")
