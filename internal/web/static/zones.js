// Grid zones and CapacityCurves, now and in the hours to come.
import { empty, h, number } from './draw.js';
import { line, stairs } from './pictures.js';

export async function zones(fetchJSON) {
  const { zones } = await fetchJSON('api/overview');
  return [
    h('h2', {}, 'Zones'),
    zones.length === 0 && empty('There is no GridZone yet. A GridZone says where the carbon intensity of a grid comes from.'),
    h('div', { class: 'cards large' }, zones.map((z) => h('section', { class: 'card', 'aria-label': `Zone ${z.name}` },
      h('h3', {}, z.name, h('span', { class: 'soft' }, ` ${z.grid}`)),
      h('p', { class: 'big' }, z.intensity === null ? 'unknown' : `${Math.round(z.intensity)}`, h('span', { class: 'soft' }, ' gCO2eq/kWh ', z.trend)),
      z.problem ? h('p', { class: 'bad' }, z.problem) : h('p', { class: 'soft' }, [z.basis, z.source, z.age && `${z.age} old`, z.stale && 'stale'].filter(Boolean).join(' · ')),
      line(z.forecast, `Intensity of ${z.name} in the hours to come`) || h('p', { class: 'soft' }, 'There is no forecast.')))),
  ];
}

export async function capacity(fetchJSON) {
  const { curves } = await fetchJSON('api/overview');
  return [
    h('h2', {}, 'Capacity'),
    curves.length === 0 && empty('There is no CapacityCurve, so the capacity of the cluster stays as it is.'),
    curves.map((c) => h('section', { class: 'card', 'aria-label': `Curve ${c.name}` },
      h('h3', {}, c.name), c.problem && h('p', { class: 'bad' }, c.problem),
      h('p', {}, h('span', { class: 'big' }, number(c.capacity)), h('span', { class: 'soft' }, ` of ${number(c.maximum)} ${c.resource}; ${number(c.used)} in use, ${number(c.waiting)} wait`)),
      h('p', { class: 'soft' }, c.message),
      stairs(c.ahead, c.maximum, `Capacity of ${c.name} in the hours to come`))),
  ];
}
