// Draw each chart where it stands; datasets that charts share are in the page once.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const shared = read("datasets");
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, tooltip: { theme: "custom" } };
  for (const element of document.querySelectorAll(".chart")) {
    const { datasets: used, ...spec } = read(element.dataset.spec);
    const datasets = Object.fromEntries(used.map((name) => [name, shared[name]]));
    vegaEmbed(element, { ...spec, datasets }, options).catch((error) => {
      element.textContent = `This chart could not be drawn: ${error.message}`;
    });
  }
})();
