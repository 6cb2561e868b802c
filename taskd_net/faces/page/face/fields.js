// Rows and phrases of the fields of views. Their declarations are in VIEWS, which the server writes before all scripts.

const WORDS = {
  text: (value) => `${value}`,
  count: (value) => value.toLocaleString("en"),
  bytes,
  seconds: duration,
  time: (value) => `${clock(value)}, ${ago(value)}`,
  ago,
};

const ALARMS = {
  some: (value) => value > 0,
  "none left": (value) => value !== null && value <= 0,
  false: (value) => value === false,
};

// The value of a field in words; null where it is left out.
function inWords(face, value) {
  if (value === null) return face.null || null;
  if (face.form === "flag") return face.flags[Number(value)] || null;
  return WORDS[face.form](value);
}

// Rows for the fields of a view with a label, each with its heading, its words and whether it is trouble.
function rowsOf(view, values, place = "") {
  return VIEWS[view]
    .filter(([, face]) => face.label && face.place === place)
    .map(([key, face]) => [face.label, inWords(face, values[key]), Boolean(face.alarm && ALARMS[face.alarm](values[key]))]);
}

// The phrases of the same fields, for a row that is a sentence.
function phrasesOf(view, values) {
  return VIEWS[view]
    .filter(([key, face]) => face.label && face.phrase && values[key])
    .map(([key, face]) => face.phrase.replace("{}", () => inWords(face, values[key])));
}
