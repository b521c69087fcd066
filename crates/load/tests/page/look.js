// What a reader would complain about in a report's page, as a list of texts; and the charts that are seen.
(() => {
  const faults = [], charts = [];
  const box = e => e.getBoundingClientRect();
  const seen = e => box(e).width > 0 && box(e).height > 0;
  const all = s => [...document.querySelectorAll(s)].filter(seen);
  const name = e => `<${e.tagName} ${e.getAttribute('class') || ''}> ${(e.textContent || '').slice(0, 30)}`;
  const fault = (what, e) => faults.push(`${what}: ${name(e)}`);

  const rgba = text => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number).concat(1).slice(0, 4);
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = e => {
    const own = e ? rgba(getComputedStyle(e).backgroundColor) : [255, 255, 255, 1];
    return !e || own[3] === 1 ? own : over(own, ground(e.parentElement));
  };
  // WCAG 2.2, relative luminance and contrast ratio.
  const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => {
    const v = c[i] / 255;
    return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };

  if (document.documentElement.scrollWidth > innerWidth) faults.push(`scrolls sideways: ${document.documentElement.scrollWidth}`);
  for (const e of all('body *')) if (box(e).right > innerWidth + 0.5 || box(e).left < -0.5) fault('out of the screen', e);

  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  for (const e of all('body *').filter(e => own(e) && e.tagName !== 'title')) {
    const style = getComputedStyle(e), svg = e.ownerSVGElement;
    const scale = svg ? box(svg).width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < 11) fault(`letters of ${size.toFixed(1)} px`, e);
    const ratio = contrast(rgba(svg ? style.fill : style.color), ground(svg || e));
    if (ratio < 4.5) fault(`contrast ${ratio.toFixed(2)}`, e);
  }

  for (const svg of all('svg')) {
    charts.push(svg.getAttribute('aria-label'));
    const shapes = [...svg.querySelectorAll('polyline, polygon, rect')];
    const drawn = shapes.filter(s => box(s).width > 0 && box(s).height > 0);
    if (!drawn.length) fault('nothing is drawn', svg);
    for (const s of shapes) {
      const style = getComputedStyle(s);
      const paint = s.tagName === 'polyline' ? rgba(style.stroke) : over(rgba(style.fill).slice(0, 3).concat(+style.fillOpacity), ground(svg));
      if (contrast(paint, ground(svg)) < 3) fault(`a line's contrast ${contrast(paint, ground(svg)).toFixed(2)} ${paint}`, svg);
      if (/NaN|Infinity/.test(s.outerHTML)) fault('no number', svg);
    }
    const width = Math.max(...drawn.map(s => box(s).right)) - Math.min(...drawn.map(s => box(s).left));
    if (width < box(svg).width / 3) fault('hardly anything is drawn', svg);
    const texts = [...svg.querySelectorAll('text')];
    if (texts.length < 6) fault('the axes have no numbers', svg);
    texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
      const [p, q] = [box(a), box(b)];
      const apart = p.right + 2 < q.left || q.right + 2 < p.left || p.bottom < q.top + 2 || q.bottom < p.top + 2;
      if (!apart) fault(`letters over letters (${b.textContent})`, a);
    }));
    for (const t of texts) if (box(t).left < box(svg).left - 0.5 || box(t).right > box(svg).right + 0.5) fault('cut off', t);
  }
  const colours = all(".k").map(k => k.parentElement.parentElement.textContent + getComputedStyle(k).backgroundColor);
  if (new Set(colours).size !== colours.length) faults.push('one colour for two lines');
  return {faults, charts, width: innerWidth, rows: all('tr').length, tiles: all('.tile').length};
})()
