(() => {
  const part = (root, key) => root.querySelector(`[data-part="${CSS.escape(key)}"]`);
  const keys = (root) => [...root.querySelectorAll('[data-part]')].map((element) => element.dataset.part);
  const carry = (from, to) => {
    for (const open of from.querySelectorAll('details[open]')) {
      const same = to.querySelector(`details[data-key="${CSS.escape(open.dataset.key)}"]`);
      if (same) same.open = true;
    }
  };
  const swap = (now, next) => {
    carry(now, next);
    if (now.innerHTML === next.innerHTML) return;
    const focused = document.activeElement?.closest('details');
    const key = now.contains(focused) ? focused.dataset.key : undefined;
    now.replaceChildren(...next.childNodes);
    if (key !== undefined) now.querySelector(`details[data-key="${CSS.escape(key)}"] summary`)?.focus();
  };
  const update = async () => {
    const stale = document.getElementById('stale');
    try {
      const answer = await fetch('/', { cache: 'no-store' });
      if (!answer.ok) throw new Error(answer.statusText);
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const [main, new_main] = [document.querySelector('main'), next.querySelector('main')];
      swap(part(document, 'headline'), part(next, 'headline'));
      if (keys(main).join('\n') === keys(new_main).join('\n')) {
        for (const key of keys(main)) swap(part(main, key), part(new_main, key));
      } else {
        swap(main, new_main);
      }
      document.title = next.title;
      if (stale) stale.hidden = true;
    } catch {
      if (stale) stale.hidden = false;
    }
    setTimeout(update, 5000);
  };
  setTimeout(update, 5000);
})();
