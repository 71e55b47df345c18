// Lines out of a stream of bytes. Only a line feed ends one, and only a whole line is decoded, so that it does not
// matter where the stream was cut.

const LONGEST = 64 << 20;
const FEED = 10;

export class LineSplitter {
  #parts = [];
  #size = 0;

  /** The text of every line that ends in `chunk`, a Buffer. RangeError where a line is longer than 64 MiB. */
  *feed(chunk) {
    let begin = 0;
    for (let end = chunk.indexOf(FEED); end !== -1; end = chunk.indexOf(FEED, begin)) {
      yield this.#whole(chunk.subarray(begin, end));
      begin = end + 1;
    }
    if (begin < chunk.length) this.#keep(chunk.subarray(begin));
  }

  #keep(piece) {
    this.#size += piece.length;
    if (this.#size > LONGEST) throw new RangeError(`the launcher sent a line of more than ${LONGEST} bytes`);
    this.#parts.push(piece);
  }

  #whole(piece) {
    this.#keep(piece);
    const line = this.#parts.length === 1 ? piece : Buffer.concat(this.#parts, this.#size);
    this.#parts = [];
    this.#size = 0;
    return line.toString("utf8");
  }
}
