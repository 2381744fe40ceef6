(() => {
  const part = (root, key) => root.querySelector(`[data-part="${CSS.escape(key)}"]`);
  const keys = (root) => [...root.querySelectorAll('[data-part]')].map((element) => element.dataset.part);
  const controls = (root) => [...root.querySelectorAll('summary,button')];
  const place = (control) => {
    const home = control.closest('[data-key],[data-part]');
    return [home.dataset.key ?? home.dataset.part, controls(home).indexOf(control)].join('\n');
  };
  const carry = (from, to) => {
    for (const open of from.querySelectorAll('details[open]')) {
      const same = to.querySelector(`details[data-key="${CSS.escape(open.dataset.key)}"]`);
      if (same) same.open = true;
    }
  };
  const swap = (now, next) => {
    carry(now, next);
    if (now.innerHTML === next.innerHTML) return;
    const focused = controls(now).find((control) => control === document.activeElement);
    const at = focused && place(focused);
    now.replaceChildren(...next.childNodes);
    if (at) controls(now).find((control) => place(control) === at)?.focus();
  };
  const update = async () => {
    const stale = document.getElementById('stale');
    try {
      const answer = await fetch('/', { cache: 'no-store' });
      if (!answer.ok) throw new Error(answer.statusText);
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const [body, new_body] = [document.querySelector('main'), next.querySelector('main')];
      for (const key of ['symbol', 'headline', 'more']) swap(part(document, key), part(next, key));
      document.querySelector('h1').className = next.querySelector('h1').className;
      document.querySelector('link').href = next.querySelector('link').href;
      if (keys(body).join('\n') === keys(new_body).join('\n')) {
        for (const key of keys(body)) swap(part(body, key), part(new_body, key));
      } else {
        swap(body, new_body);
      }
      document.title = next.title;
      if (stale) stale.hidden = true;
    } catch {
      if (stale) stale.hidden = false;
    }
    setTimeout(update, 5000);
  };
  // The clipboard of newer browsers needs HTTPS; a selection does not.
  document.addEventListener('click', ({ target }) => {
    if (!target.matches('button')) return;
    getSelection().selectAllChildren(target.previousElementSibling);
    target.textContent = document.execCommand('copy') ? 'copied' : 'press Ctrl+C';
  });
  setTimeout(update, 5000);
})();
