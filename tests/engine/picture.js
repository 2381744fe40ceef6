// Says what a viewer would see of the picture in this document: which of its texts do not fit, how much the brightness of its
// first frame varies, and how many of its parts move.
const svg = document.querySelector('svg');
const { width, height } = svg.viewBox.baseVal;
const fits = (text) => {
  const box = text.getBBox();
  return box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height;
};
const cut = [...svg.querySelectorAll('text')].filter((text) => !fits(text)).map((text) => text.textContent);
const moving = document.getAnimations().length;
const picture = new Image(width, height);
picture.onload = () => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext('2d');
  context.drawImage(picture, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  let [sum, squares, count] = [0, 0, 0];
  for (let at = 0; at < data.length; at += 4) {
    const light = (data[at] + data[at + 1] + data[at + 2]) / 3;
    sum += light;
    squares += light * light;
    count += 1;
  }
  const variance = Math.round(squares / count - (sum / count) ** 2);
  document.title = JSON.stringify({ cut, variance, moving });
};
picture.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
