// Outlines on a 20 × 20 grid, drawn in the colour of the text around them. They
// repeat what words beside them say, and are hidden from screen readers.
const paths = {
  check: 'M4 10.5l4 4 8-9',
  cross: 'M5 5l10 10M15 5L5 15',
  stop: 'M6 6h8v8H6z',
  clock: 'M10 3a7 7 0 100 14 7 7 0 000-14zM10 6v4l3 2',
  skip: 'M4 5l6 5-6 5zM11 5l6 5-6 5z',
  shield: 'M10 2.5l6 2.2v4.6c0 3.8-2.5 6.7-6 8.2-3.5-1.5-6-4.4-6-8.2V4.7zM7.5 7.5l5 5M12.5 7.5l-5 5',
  question: 'M7.5 7.5a2.5 2.5 0 115 0c0 1.7-2.5 2-2.5 4M10 14.5v.5M10 2.5a7.5 7.5 0 100 15 7.5 7.5 0 000-15z',
  warning: 'M10 3l7.5 13.5h-15zM10 8v4M10 14v.5',
  pencil: 'M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3',
  eye: 'M2.5 10S5.5 5 10 5s7.5 5 7.5 5-3 5-7.5 5-7.5-5-7.5-5zM10 8a2 2 0 100 4 2 2 0 000-4z',
  gear: 'M10 7a3 3 0 100 6 3 3 0 000-6zM10 2.5v2.2M10 15.3v2.2M2.5 10h2.2M15.3 10h2.2M4.7 4.7l1.6 1.6M13.7 13.7l1.6 1.6M4.7 15.3l1.6-1.6M13.7 6.3l1.6-1.6',
  hand: 'M6 10V5.5a1.2 1.2 0 012.4 0V9m0-4.7a1.2 1.2 0 012.4 0V9m0-3.6a1.2 1.2 0 012.4 0V11m0-2a1.2 1.2 0 012.4 0v3.2c0 3-2 5.3-4.8 5.3-2.3 0-3.5-1.1-4.6-2.9L3.4 11a1.2 1.2 0 012-1.3L7 11.5',
  run: 'M6 4l9 6-9 6z',
  plus: 'M10 4v12M4 10h12',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  more: 'M4.5 10h.01M10 10h.01M15.5 10h.01',
  trash: 'M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6M8.6 9v4M11.4 9v4',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  retry: 'M15.5 7A6.2 6.2 0 104.2 11.5M15.8 3.2V7H12',
  send: 'M10 16.5v-13M4.5 9L10 3.5 15.5 9',
  queue: 'M4 5h12M4 10h12M4 15h7',
  sun: 'M10 6.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M4 16l1.4-1.4M14.6 5.4L16 4',
  moon: 'M16.5 12.2A7 7 0 017.8 3.5a7 7 0 108.7 8.7z',
  auto: 'M10 3a7 7 0 100 14zM10 3a7 7 0 010 14',
  chevron: 'M7 4.5l5.5 5.5L7 15.5',
  home: 'M3 9.5L10 3.5l7 6M5 8.5V16h10V8.5M8.5 16v-4h3v4',
  down: 'M10 4v12M4.5 10.5L10 16l5.5-5.5',
  exit: 'M8 4H4v12h4M12 6.5l4 3.5-4 3.5M16 10H8',
  always: 'M3.5 10a3.2 3.2 0 006 1.6L10.5 8.4a3.2 3.2 0 110 3.2L9.5 8.4A3.2 3.2 0 003.5 10z',
  link: 'M8.5 11.5a3 3 0 004.2 0l2.6-2.6a3 3 0 00-4.2-4.2l-1 1M11.5 8.5a3 3 0 00-4.2 0l-2.6 2.6a3 3 0 004.2 4.2l1-1',
  back: 'M9 4.5L3.5 10 9 15.5M3.5 10h13',
  upload: 'M10 13V4M6.5 7L10 3.5 13.5 7M4 13v3h12v-3',
  sliders: 'M3 6.5h6M14 6.5h3M3 13.5h3M11 13.5h6M11.5 4.5a2 2 0 100 4 2 2 0 000-4zM8.5 11.5a2 2 0 100 4 2 2 0 000-4z',
  lock: 'M5.5 9h9v7h-9zM7.5 9V6.5a2.5 2.5 0 015 0V9',
  person: 'M10 3.5a3 3 0 100 6 3 3 0 000-6zM4 16.5c0-3 2.6-5 6-5s6 2 6 5',
  dots: 'M5 10h.01M10 10h.01M15 10h.01',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, className = '' }: { name: IconName; className?: string }) {
  const heavy = name === 'more' || name === 'dots'
  return (
    <svg className={`icon ${className}`} viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" focusable="false">
      <path
        d={paths[name]}
        fill={name === 'stop' || name === 'run' || name === 'skip' ? 'currentColor' : 'none'}
        stroke="currentColor"
        strokeWidth={heavy ? 3 : 1.7}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  )
}
