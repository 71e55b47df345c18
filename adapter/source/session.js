// The session of a task as the server stores it, by the rules in described.json: pure, cheap, and the launcher's own.

/** `rules`: {fields: [{name, aliases}], id, space, longest} */
export function sessionCodec(rules) {
  const space = new Set(rules.space);
  const trim = (text) => {
    const characters = [...text];
    let [begin, end] = [0, characters.length];
    while (begin < end && space.has(characters[begin])) begin += 1;
    while (end > begin && space.has(characters[end - 1])) end -= 1;
    return characters.slice(begin, end).join("");
  };
  const isId = (text) => {
    const characters = [...text];
    const fine = (one) => !space.has(one) && one !== "\x7f" && one.charCodeAt(0) >= 0x20;
    return text !== "" && text[0] !== "-" && characters.length <= rules.longest && characters.every(fine);
  };
  const read = (raw) => {
    if (raw === null || typeof raw !== "object" || Array.isArray(raw)) return null;
    const texts = (aliases) => aliases.map((one) => raw[one]).filter((one) => typeof one === "string").map(trim);
    const found = rules.fields.map(({ name, aliases }) => [name, texts(aliases).find((text) => text !== "") ?? ""]);
    const session = Object.fromEntries(found.filter(([, text]) => text !== ""));
    return isId(session[rules.id] ?? "") ? session : null;
  };
  return {
    deserialize: read,
    serialize: read,
    getDisplayId: (params) => read(params)?.[rules.id] ?? null,
  };
}
