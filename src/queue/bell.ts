/** Lets something wait for a while, or until it is called. */
export class Bell {
  #answer: (() => void) | null = null;
  #rung = false;

  /** Ends the waiting; or the next one, when nobody waits. */
  ring(): void {
    this.#rung = true;
    this.#answer?.();
  }

  async wait(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#answer = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#answer = null;
    }
    this.#rung = false;
  }
}
