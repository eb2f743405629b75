import com.mongodb.CursorType;
import com.mongodb.ReadConcern;
import com.mongodb.ReadConcernLevel;
import com.mongodb.ReadPreference;
import com.mongodb.Tag;
import com.mongodb.TagSet;
import com.mongodb.TransactionOptions;
import com.mongodb.WriteConcern;
import com.mongodb.client.cursor.TimeoutMode;
import com.mongodb.client.model.Collation;
import com.mongodb.client.model.CollationAlternate;
import com.mongodb.client.model.CollationCaseFirst;
import com.mongodb.client.model.CollationMaxVariable;
import com.mongodb.client.model.CollationStrength;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.changestream.FullDocument;
import com.mongodb.client.model.changestream.FullDocumentBeforeChange;
import com.mongodb.session.ClientSession;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bson.BsonBinary;
import org.bson.BsonDocument;
import org.bson.BsonNumber;
import org.bson.BsonString;
import org.bson.BsonTimestamp;
import org.bson.BsonValue;
import org.bson.conversions.Bson;

/** The arguments of an operation. What no operation has taken is an option, see {@link #apply}. */
final class Arguments {
    /** The driver's names of options that differ from those of the specifications. */
    private static final Map<String, String> NAMES = Map.of(
            "allowPartialResults", "partial", "default_language", "defaultLanguage", "hint", "hint",
            "language_override", "languageOverride", "causalConsistency", "causallyConsistent",
            "max", "max", "size", "sizeInBytes", "textIndexVersion", "textVersion",
            "2dsphereIndexVersion", "sphereVersion");

    /** The kinds of entities that have a timeoutMS of their own. */
    private static final Set<String> TIMED = Set.of("database", "collection", "bucket");

    final BsonDocument all;
    ClientSession session;
    Runnable callback;
    private final Set<String> taken = new HashSet<>();

    Arguments(final BsonDocument all) {
        this.all = all;
    }

    Optional<BsonValue> take(final String name) {
        taken.add(name);
        return Optional.ofNullable(all.get(name));
    }

    Optional<BsonNumber> number(final String name) {
        return take(name).map(BsonValue::asNumber);
    }

    String text(final String name) {
        return take(name).map(value -> value.asString().getValue()).orElse(null);
    }

    BsonDocument document(final String name) {
        return take(name).map(BsonValue::asDocument).orElseGet(BsonDocument::new);
    }

    List<BsonDocument> documents(final String name) {
        return take(name).map(Arguments::documentsOf).orElseGet(List::of);
    }

    /** Returns an entity with the timeoutMS of this operation: the driver has it on collections and their like. */
    Object timed(final String kind, final Object entity) {
        return all.containsKey("timeoutMS") && TIMED.contains(kind)
                ? set(entity, "timeoutMS", take("timeoutMS").orElseThrow()) : entity;
    }

    /** Returns the arguments that nobody has taken. */
    BsonDocument rest() {
        BsonDocument rest = all.clone();
        rest.keySet().removeAll(taken);
        return rest;
    }

    /**
     * Gives an object of the driver all that was not taken, each by the method of its name.
     *
     * So the driver itself says which options it has: a case that needs another one is skipped, where it would seem
     * to hold if the option were ignored.
     */
    <T> T apply(final T options) {
        return apply(options, rest());
    }

    @SuppressWarnings("unchecked")
    static <T> T apply(final T options, final BsonDocument given) {
        T target = options;
        for (Map.Entry<String, BsonValue> option : given.entrySet()) {
            target = (T) set(target, option.getKey(), option.getValue());
        }
        return target;
    }

    private static Object set(final Object target, final String option, final BsonValue value) {
        String name = NAMES.getOrDefault(option, option);
        boolean isTime = name.endsWith("MS") || name.equals("expireAfterSeconds");
        if (isTime) {
            name = name.replaceAll("MS$|Seconds$", "");
        } else if (name.equals("hint") && value.isString()) {
            name = "hintString";
        }
        for (String form : List.of(name, "with" + Character.toUpperCase(name.charAt(0)) + name.substring(1))) {
            for (Method method : methods(target.getClass(), form)) {
                Class<?>[] types = method.getParameterTypes();
                Object converted = types.length == (isTime ? 2 : 1) ? convert(value, types[0]) : null;
                if (converted != null) {
                    TimeUnit unit = option.endsWith("Seconds") ? TimeUnit.SECONDS : TimeUnit.MILLISECONDS;
                    return isTime ? invoke(method, target, converted, unit) : invoke(method, target, converted);
                }
            }
        }
        throw new Adapter.Unsupported("the driver does not take " + option + " here");
    }

    /** Calls a method of the driver, with the session as its first argument where there is one. */
    Object call(final Object target, final String name, final Object... arguments) {
        List<Object> values = new ArrayList<>(Arrays.asList(arguments));
        if (session != null) {
            values.add(0, session);
        }
        return invoke(target, name, values.toArray());
    }

    /** Calls a method of the driver. */
    static Object invoke(final Object target, final String name, final Object... values) {
        for (Method method : methods(target.getClass(), name)) {
            Class<?>[] types = method.getParameterTypes();
            boolean fits = types.length == values.length;
            for (int index = 0; fits && index < types.length; index++) {
                fits = types[index].isInstance(values[index]);
            }
            if (fits) {
                return invoke(method, target, values);
            }
        }
        throw new Adapter.Unsupported("the driver has no " + name + " with these arguments");
    }

    /** Returns the public methods of a name, those with the most general parameters first. */
    private static List<Method> methods(final Class<?> type, final String name) {
        List<Method> found = new ArrayList<>();
        collect(type, name, found);
        found.sort(Comparator.comparing((Method method) ->
                method.getParameterCount() > 0 && method.getParameterTypes()[0] == String.class));
        return found;
    }

    /** The driver's classes are not public, their interfaces are. */
    private static void collect(final Class<?> type, final String name, final List<Method> found) {
        if (type == null) {
            return;
        }
        if (Modifier.isPublic(type.getModifiers())) {
            Stream.of(type.getDeclaredMethods())
                    .filter(method -> method.getName().equals(name))
                    .filter(method -> Modifier.isPublic(method.getModifiers()))
                    .forEach(found::add);
        }
        Stream.of(type.getInterfaces()).forEach(each -> collect(each, name, found));
        collect(type.getSuperclass(), name, found);
    }

    private static Object invoke(final Method method, final Object target, final Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(error);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns an option as a method takes it, null where it cannot be that. */
    private static Object convert(final BsonValue value, final Class<?> type) {
        if (type == boolean.class || type == Boolean.class) {
            return value.isBoolean() ? value.asBoolean().getValue() : null;
        } else if (type == int.class || type == Integer.class) {
            return value.isNumber() ? value.asNumber().intValue() : null;
        } else if (type == long.class || type == Long.class) {
            return value.isNumber() ? value.asNumber().longValue() : null;
        } else if (type == Double.class) {
            return value.isNumber() ? value.asNumber().doubleValue() : null;
        } else if (type == String.class) {
            return value.isString() ? value.asString().getValue() : null;
        } else if (type == BsonValue.class) {
            return value;
        } else if (type == Bson.class || type == BsonDocument.class) {
            return value.isDocument() ? value.asDocument() : null;
        } else if (type == BsonTimestamp.class) {
            return value.isTimestamp() ? value.asTimestamp() : null;
        } else if (type == List.class || type == Iterable.class) {
            return value.isArray() ? documentsOf(value) : null;
        }
        return special(value, type);
    }

    private static Object special(final BsonValue value, final Class<?> type) {
        String text = value.isString() ? value.asString().getValue() : "";
        if (type == Collation.class) {
            return collation(value.asDocument());
        } else if (type == CursorType.class) {
            return Map.of("nonTailable", CursorType.NonTailable, "tailable", CursorType.Tailable,
                    "tailableAwait", CursorType.TailableAwait).get(text);
        } else if (type == TimeoutMode.class) {
            return text.equals("iteration") ? TimeoutMode.ITERATION : TimeoutMode.CURSOR_LIFETIME;
        } else if (type == ReturnDocument.class) {
            return text.equals("After") ? ReturnDocument.AFTER : ReturnDocument.BEFORE;
        } else if (type == FullDocument.class) {
            return FullDocument.fromString(text);
        } else if (type == FullDocumentBeforeChange.class) {
            return FullDocumentBeforeChange.fromString(text);
        } else if (type == ReadConcern.class) {
            return readConcern(value.asDocument());
        } else if (type == WriteConcern.class) {
            return writeConcern(value.asDocument());
        } else if (type == ReadPreference.class) {
            return readPreference(value.asDocument());
        } else if (type == TransactionOptions.class) {
            return apply(TransactionOptions.builder(), value.asDocument()).build();
        }
        return null;
    }

    private static Collation collation(final BsonDocument given) {
        Collation.Builder builder = Collation.builder();
        BsonDocument rest = given.clone();
        Optional.ofNullable(rest.remove("caseFirst")).map(BsonValue::asString).map(BsonString::getValue)
                .map(CollationCaseFirst::fromString).ifPresent(builder::collationCaseFirst);
        Optional.ofNullable(rest.remove("alternate")).map(BsonValue::asString).map(BsonString::getValue)
                .map(CollationAlternate::fromString).ifPresent(builder::collationAlternate);
        Optional.ofNullable(rest.remove("maxVariable")).map(BsonValue::asString).map(BsonString::getValue)
                .map(CollationMaxVariable::fromString).ifPresent(builder::collationMaxVariable);
        Optional.ofNullable(rest.remove("strength")).map(value -> value.asNumber().intValue())
                .map(CollationStrength::fromInt).ifPresent(builder::collationStrength);
        return apply(builder, rest).build();
    }

    static ReadConcern readConcern(final BsonDocument given) {
        return given.containsKey("level")
                ? new ReadConcern(ReadConcernLevel.fromString(given.getString("level").getValue()))
                : ReadConcern.DEFAULT;
    }

    static WriteConcern writeConcern(final BsonDocument given) {
        WriteConcern concern = WriteConcern.ACKNOWLEDGED;
        if (given.containsKey("w")) {
            BsonValue w = given.get("w");
            concern = w.isString() ? new WriteConcern(w.asString().getValue())
                    : new WriteConcern(w.asNumber().intValue());
        }
        if (given.containsKey("journal")) {
            concern = concern.withJournal(given.getBoolean("journal").getValue());
        }
        return given.containsKey("wtimeoutMS")
                ? concern.withWTimeout(given.getNumber("wtimeoutMS").longValue(), TimeUnit.MILLISECONDS) : concern;
    }

    static ReadPreference readPreference(final BsonDocument given) {
        ReadPreference preference = ReadPreference.valueOf(given.getString("mode").getValue());
        if (given.containsKey("tagSets")) {
            preference = preference.withTagSetList(documentsOf(given.get("tagSets")).stream()
                    .map(set -> new TagSet(set.entrySet().stream()
                            .map(tag -> new Tag(tag.getKey(), tag.getValue().asString().getValue()))
                            .collect(Collectors.toList()))).toList());
        }
        return given.containsKey("maxStalenessSeconds") ? preference.withMaxStalenessMS(
                given.getNumber("maxStalenessSeconds").longValue() * 1000, TimeUnit.MILLISECONDS) : preference;
    }

    static byte[] bytes(final BsonValue value) {
        return ((BsonBinary) value).getData();
    }

    private static List<BsonDocument> documentsOf(final BsonValue value) {
        return value.asArray().stream().map(BsonValue::asDocument).toList();
    }
}
